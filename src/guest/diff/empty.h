/* Removes all that is in a folder, however deep, with two descriptors and no memory to speak of. */
#pragma once

int empty_dir(int dir);
