/* SEARCH and TREE: what is in the files beneath a folder, and what their names are.
 * docs/protocol.md has the fields. */
#pragma once

struct error;
struct file_call;

int search_files(struct file_call *c, struct error *err);
int search_tree(struct file_call *c, struct error *err);
