/* The terminal given back when a signal ends the program: its modes, its screen, its cursor. */
#pragma once

void restore_arm(void);    /* before ncurses changes anything */
void restore_learn(void);  /* once it knows the terminal */
void restore_disarm(void); /* when ncurses has given it back itself */
