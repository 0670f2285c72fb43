/* SPDX-License-Identifier: Apache-2.0
 *
 * database.h: the tables of the store. One thread at a time.
 */
#pragma once

#include "store/store.h"

struct database;
struct stat;

/* 1: a file is there, with what stat() or lstat() says of it; 0: none is; or a negative errno, with words: that is not
 * known. */
int database_file(const char *path, bool follow, struct stat *ret, char why[static STORE_WHY]);

/* Opens the file, makes it where `create`. 0; -ENOENT: there is none; or a negative errno, with words in why. */
int database_open(struct database **ret_database, const char *path, bool create, char why[static STORE_WHY]);
struct database *database_free(struct database *db);

/* 0 where root may have the file as a part of its store: it is regular, root's alone, and has no other name; or there
 * is none. Else -EACCES, with words. Another user's wsd may have any. */
int database_trusts(const char *path, char why[static STORE_WHY]);

/* Whether the files are still there that what is committed goes to. 0; -ENOENT: removed; -ESTALE: others are in their
 * place; or another negative errno: that is not known; with words. */
int database_there(const struct database *db, char why[static STORE_WHY]);
/* Between transactions: all of it into a new file, which is on disk then. 0 or a negative errno, with words. */
int database_copy(struct database *db, const char *path, char why[static STORE_WHY]);

/* Each job, the oldest first. What a row points to lives until the callback returns. */
int database_each(struct database *db, int (*each)(const struct store_row *row, void *userdata), void *userdata,
                  char why[static STORE_WHY]);
/* Each schedule, in the order of their numbers. */
int database_schedules(struct database *db, int (*each)(const struct store_row *row, void *userdata), void *userdata,
                       char why[static STORE_WHY]);

/* A transaction. Any failure of the database itself undoes all of it: then -errno with words, and nothing is on
 * disk. */
int database_begin(struct database *db, char why[static STORE_WHY]);
int database_commit(struct database *db, char why[static STORE_WHY]);
void database_rollback(struct database *db);
/* Between transactions: copies the log into the tables where it has become long, which takes some milliseconds. */
void database_tidy(struct database *db);

/* One request, within a transaction: fills result, why and the reply. True: the transaction goes on; false: it is to be
 * undone. */
bool database_do(struct database *db, struct store_request *r);
/* Gives back a reply that will not be sent. */
void database_undo_reply(struct store_request *r);
