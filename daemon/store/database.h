/* SPDX-License-Identifier: Apache-2.0
 *
 * database.h: the tables of the store. One thread at a time.
 */
#pragma once

#include "store/store.h"

struct database;
struct stat;

/* Looks for a file. Returns 1: it is there, and *ret has what stat() (follow) or lstat() says; 0: there is none; or a
 * negative errno with words: that is not known. */
int database_file(const char *path, bool follow, struct stat *ret, char why[static STORE_WHY]);

/* Opens the file; makes it if `create`. Returns 0; -ENOENT: there is none; or a negative errno with words in why. */
int database_open(struct database **ret_database, const char *path, bool create, char why[static STORE_WHY]);
struct database *database_free(struct database *db);

/* Whether root may use the file for its store. Returns 0 if it is regular, writable by root alone and without other
 * names, or if there is none; else -EACCES with words. For a wsd of another user, any file is fine. */
int database_trusts(const char *path, char why[static STORE_WHY]);

/* Whether the files that commits go to are still there. Returns 0; -ENOENT: removed; -ESTALE: others are in their
 * place; or another negative errno: that is not known; with words. */
int database_there(const struct database *db, char why[static STORE_WHY]);
/* Copies the database into a new file, which is on disk at the return. Between transactions. Returns 0 or a negative
 * errno, with words. */
int database_copy(struct database *db, const char *path, char why[static STORE_WHY]);

/* Calls each for every job, the oldest first. What a row points to lives until the callback returns. */
int database_each(struct database *db, int (*each)(const struct store_row *row, void *userdata), void *userdata,
                  char why[static STORE_WHY]);
/* Calls each for every schedule, in the order of their numbers. */
int database_schedules(struct database *db, int (*each)(const struct store_row *row, void *userdata), void *userdata,
                       char why[static STORE_WHY]);

/* A transaction. Any failure of the database itself undoes all of it: returns -errno with words, and nothing is on
 * disk. */
int database_begin(struct database *db, char why[static STORE_WHY]);
int database_commit(struct database *db, char why[static STORE_WHY]);
void database_rollback(struct database *db);
/* Copies SQLite's log into the tables if it has become long, which takes some milliseconds. Between transactions. */
void database_tidy(struct database *db);

/* Does one request within a transaction: fills result, why and the reply. True: the transaction goes on. False: it must
 * be undone. */
bool database_do(struct database *db, struct store_request *r);
/* Frees a reply that will not be sent. */
void database_undo_reply(struct store_request *r);
