/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.c: the terminal of `wsctl top`, by ncurses: the module wsctl-top.so.
 * Owns the terminal between open and close. One thread; abandon also in a signal handler.
 * Keeps: the terminal is given back as it was, whichever way wsctl ends.
 * Does not know what is drawn. */
#include "screen.h"

#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

static SCREEN *terminal;
static struct termios before;
static bool have_before;
static char farewell[128]; /* what takes a terminal back, worked out before a signal may want it */

/* Without the delays of old terminals, `$<5>`. */
static void add_farewell(const char *capability)
{
    const char *text = tigetstr((char *)(uintptr_t)capability);
    size_t n = strlen(farewell);

    if (!text || text == (const char *)-1)
        return;
    while (*text && n < sizeof(farewell) - 1) {
        const char *end = text[0] == '$' && text[1] == '<' ? strchr(text, '>') : NULL;

        if (end)
            text = end + 1;
        else
            farewell[n++] = *text++;
    }
    farewell[n] = 0;
}

static int screen_open(void)
{
    struct termios mode;

    setlocale(LC_CTYPE, "");
    have_before = tcgetattr(STDIN_FILENO, &before) == 0;
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return -ENOTSUP;
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    if (tcgetattr(STDIN_FILENO, &mode) == 0) { /* Ctrl-\ would leave the terminal as it is now */
        mode.c_cc[VQUIT] = _POSIX_VDISABLE;
        tcsetattr(STDIN_FILENO, TCSANOW, &mode);
        def_prog_mode();
    }
    farewell[0] = 0;
    add_farewell("sgr0");
    add_farewell("rmkx");
    add_farewell("cnorm");
    add_farewell("rmcup");
    return 0;
}

static void screen_close(void)
{
    if (!terminal)
        return;
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

static void screen_abandon(void)
{
    if (!terminal)
        return;
    if (write(STDOUT_FILENO, farewell, strlen(farewell)) < 0)
        return; /* no terminal */
    if (have_before)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void screen_dimensions(int *ret_height, int *ret_width)
{
    getmaxyx(stdscr, *ret_height, *ret_width);
}

static void screen_clear(void)
{
    erase();
}

static void screen_put(int row, enum screen_style style, const char *text)
{
    int attributes = (int)(style == SCREEN_BOLD ? A_BOLD : style == SCREEN_REVERSE ? A_REVERSE : A_NORMAL);
    int height, width;

    getmaxyx(stdscr, height, width);
    if (row >= height)
        return;
    attrset(attributes);
    mvaddnstr(row, 0, text, width);
    if (style == SCREEN_REVERSE && getcury(stdscr) == row)
        mvchgat(row, 0, -1, A_REVERSE, 0, NULL); /* to the edge */
    attrset(A_NORMAL);
}

static void screen_show(void)
{
    sigset_t stop, before_it;

    /* ncurses ignores Ctrl-Z while it draws; blocked, it waits. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, &before_it);
    refresh();
    sigprocmask(SIG_SETMASK, &before_it, NULL);
}

static int screen_key(void)
{
    int c = getch();

    return c == ERR ? SCREEN_NONE : c == KEY_RESIZE ? SCREEN_RESIZED : c < 256 ? c : 0;
}

__attribute__((visibility("default"))) const struct screen wsctl_screen = {
    .size = sizeof(wsctl_screen),
    .open = screen_open,
    .close = screen_close,
    .abandon = screen_abandon,
    .dimensions = screen_dimensions,
    .clear = screen_clear,
    .put = screen_put,
    .show = screen_show,
    .key = screen_key,
};
