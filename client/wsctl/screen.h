/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.h: what `wsctl top` asks of the module that draws (wsctl-top.so, which has ncurses). wsctl and module are
 * built and installed together; `size` tells a module that is not.
 */
#pragma once

#include <stddef.h>

enum screen_style { SCREEN_PLAIN, SCREEN_BOLD, SCREEN_REVERSE };

#define SCREEN_NONE    (-1) /* no key */
#define SCREEN_RESIZED (-2)

struct screen {
    size_t size; /* sizeof(struct screen) */
    /* Takes the terminal at stdin and stdout. 0, or -ENOTSUP: it cannot be drawn on. */
    int (*open)(void);
    /* Gives it back as it was. */
    void (*close)(void);
    /* The same from a signal handler, when the process ends behind it. */
    void (*abandon)(void);
    void (*dimensions)(int *ret_height, int *ret_width);
    void (*clear)(void);
    /* One row, cut off at the edge. */
    void (*put)(int row, enum screen_style style, const char *text);
    void (*show)(void);
    /* The next key that was pressed, SCREEN_RESIZED or SCREEN_NONE; does not wait. */
    int (*key)(void);
};

extern const struct screen wsctl_screen;
