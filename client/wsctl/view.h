/* SPDX-License-Identifier: Apache-2.0
 *
 * view.h: two looks as lines for people, and as an object for programs.
 */
#pragma once

#include "ctl.h"
#include "look.h"
#include "screen.h"
#include "spark.h"

struct view {
    const struct look *before; /* NULL: there is no earlier one, so that there are no rates */
    const struct look *now;
    const char *daemon; /* its name and version */
    uint64_t delay_usec;
    enum look_sort sort;
    bool paused, functions; /* functions: in place of users and jobs */
    const struct sparks *sparks;
    bool keys;   /* say which there are */
    size_t rows; /* at most so many lines; 0: any number, with at most `jobs` jobs */
    size_t jobs;
};

/* Line after line. */
void view_draw(const struct view *view, void (*put)(enum screen_style style, const char *text, void *userdata),
               void *userdata);
/* 0 or the exit code, said. */
int view_json(const struct view *view);
