/* SPDX-License-Identifier: Apache-2.0
 *
 * letter.h: jobs and their ends as messages of NATS: their subjects, and their bytes. Everything here is [loop].
 *
 * A job is what a runner is handed: a RUN, and RUN_INPUT for what does not fit into it. Its end is what a runner sends
 * back: RUN_OUTPUT, and RUN_END. So the limits of all fields are those of proto/PROTOCOL.md, and there is one parser.
 *
 * An input or output that makes a letter larger than LETTER_MAX goes beside it, in parts (parts.h). In its letter stands
 * a seal: one RUN_INPUT or RUN_OUTPUT. Its offset is the size of the whole, which no ordinary first piece has. Its body
 * is the mark of the parts, and the digest.
 *
 * Small jobs of one function, which may run twice, go together in a *parcel*. Their letters are one behind the other,
 * in one message, with an id of its own in its subject. What has ended when the others have comes back the same way:
 * ends one behind the other, in one message under the parcel's id. In each, `run` is its job's place in the parcel,
 * from 1 on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "proto/codec.h"

#define LETTER_SUBJECT 256u
#define LETTER_NAME    32u                 /* of a node, in bytes, with NUL: letters, digits, `_`, `-` */
#define LETTER_ID      33u                 /* of a job, as text */
#define LETTER_MAX     (1048576u - 16384u) /* of a message: what a server takes, less headers */
#define LETTER_MARK    8u
#define LETTER_DIGEST  32u /* SHA-256 */

#define PARCEL_JOBS 256u  /* at most */
#define PARCEL_SIZE 4096u /* bytes of arguments and input of a job that goes in a parcel, at most */
/* The header by which the message of an end says how many jobs of this function the node takes in a parcel. A node that
 * is older says nothing, and knows no parcels. */
#define PARCEL_HEADER "Wsd-Parcel"
/* The header that names the node which a job comes from. That node can be told of a job that cannot be read, hears of
 * its jobs while they run, and looks for outputs in parts under its name. The message of an end has it where such an
 * output is there. A node that is older says nothing. */
#define HOME_HEADER "Wsd-Home"
#define LIVE_MAX    4096u /* of a message about a job that runs */

/* In parts, at most. The defaults of max-input and max-result in wsd.conf(5). */
#define LETTER_INPUT_MAX  (1ull << 30)
#define LETTER_OUTPUT_MAX (64ull << 20)

/* The stream of ends keeps them, marks and keys for so long, or longer if it was made so. Parts are kept as long as
 * ends, and for a day at least. */
#define LETTER_KEPT_USEC 3600000000ull
#define LETTER_KEPT_MOST (30 * 24 * LETTER_KEPT_USEC)
#define PARTS_KEPT_USEC  (24 * LETTER_KEPT_USEC)

#define STREAM_JOBS    "WSD_JOBS"
#define STREAM_RESULTS "WSD_RES"
#define STREAM_DEAD    "WSD_DEAD"
#define STREAM_PARTS   "WSD_PARTS"

/* By priority: above 0, 0, below. */
enum letter_class { CLASS_HI, CLASS_NORM, CLASS_LO, N_CLASSES };
extern const char *const letter_classes[N_CLASSES];

static inline enum letter_class letter_class(int priority)
{
    return priority > 0 ? CLASS_HI : priority < 0 ? CLASS_LO : CLASS_NORM;
}

/* The id of a job as text. */
void letter_id_text(const uint8_t id[static 16], char ret[static LETTER_ID]);
/* Whether that can be a part of a subject. A plugin with another name cannot go elsewhere. */
bool letter_is_name(const char *name, size_t size, size_t room);
#define LETTER_BUILD 16u /* digits of a build id */

/* Bytes of the plugin's own name in PLUGIN or PLUGIN.BUILD, which may have ":FUNCTION" behind it. */
size_t letter_plugin(const char *name);
/* The subject of a job for this plugin, or for a build of it, of which `name` is as above. The last part of the subject is
 * PLUGIN or PLUGIN+BUILD. False: its name cannot be a part of a subject. */
bool letter_job_subject(char ret[static LETTER_SUBJECT], const char *name, int priority);
/* The same of a parcel. A consumer for letters gets none: a node that is older knows only those. */
bool letter_parcel_subject(char ret[static LETTER_SUBJECT], const char *name, int priority, const char *id);
/* The id of the parcel that has this subject. False: it is another subject. */
bool letter_get_parcel_id(const char *subject, char ret[static LETTER_ID]);
/* The subject of parts: `way` is "in" or "out". Of one: with a dot and its number behind it, from 0 on. home: the node
 * that alone may read them; NULL: any may. */
void letter_parts_subject(char ret[static LETTER_SUBJECT], const char *home, const char *id, uint32_t attempt,
                          const char *way, const uint8_t mark[static LETTER_MARK]);
/* The subject of the end of a job that this node has sent. */
void letter_end_subject(char ret[static LETTER_SUBJECT], const char *node, const char *id);
/* The same of what is told while it runs. In no stream. */
void letter_live_subject(char ret[static LETTER_SUBJECT], const char *node, const char *id);
/* The job and its attempt, of the message id of its letter. False: it is no such id. */
bool letter_get_sent(const char *message_id, char ret_id[static LETTER_ID], uint32_t *ret_attempt);

/* Appends a job of this node's. `run` is its place in a parcel, 0 or 1 where it is alone. Returns 0, -ENOMEM, or -E2BIG:
 * more than LETTER_MAX. */
int letter_put_job(struct buffer *to, const char *node, const struct msg_run *run, const void *input, size_t size);
/* Appends an end. Likewise. `run` is the job's attempt: a job that is tried again has an end for each. */
int letter_put_end(struct buffer *to, const struct msg_run_end *end, const void *output, size_t size);
/* The same of a parcel, `run` being the job's place. What does not fit leaves it as it was. */
int parcel_put_job(struct buffer *to, const char *node, const struct msg_run *run, const void *input, size_t size);
int parcel_put_end(struct buffer *to, const struct msg_run_end *end, const void *output, size_t size);

/* Appends a line of a job that runs. Returns 0, -ENOMEM, or -E2BIG: more than LIVE_MAX. Then nothing is appended. */
int live_put_message(struct buffer *to, uint32_t attempt, uint32_t level, const char *text);
/* Appends how far it is. Likewise. */
int live_put_progress(struct buffer *to, uint32_t attempt, uint64_t done, uint64_t total);
/* Takes the first of them off the front of `rest`: a RUN_MESSAGE or RUN_PROGRESS, with the attempt as its `run`.
 * Returns 0, or -EBADMSG with words. */
int live_get(struct codec *codec, struct span *rest, struct msg *ret, char ret_why[static 160]);

/* What stands for an input or output that goes in parts. */
struct letter_seal {
    uint64_t size;                 /* 0: there are no parts */
    uint8_t mark[LETTER_MARK];     /* of these parts: each sender makes its own, so that no two mix */
    uint8_t digest[LETTER_DIGEST]; /* of the whole */
};
/* Appends a job with an input that goes in parts. Returns 0 or -ENOMEM. */
int letter_put_sealed_job(struct buffer *to, const char *node, const struct msg_run *run,
                          const struct letter_seal *seal);
/* Appends what stands before an end with an output that goes in parts: an end without output follows. Likewise. */
int letter_put_output_seal(struct buffer *to, const struct letter_seal *seal);

/* What a message says. Texts point into the codec, until its next use, or into the message. */
struct letter_job {
    struct msg_run run;      /* `directory` is the node that it comes from */
    struct buffer input;     /* the caller's */
    struct letter_seal seal; /* of an input that is not here */
};
struct letter_end {
    struct msg_run_end end;
    struct buffer output; /* likewise */
    struct letter_seal seal;
};
/* Returns 0, -ENOMEM, or -EBADMSG with words. */
int letter_get_job(struct codec *codec, const void *data, size_t size, struct letter_job *ret,
                   char ret_why[static 160]);
int letter_get_end(struct codec *codec, const void *data, size_t size, struct letter_end *ret,
                   char ret_why[static 160]);
/* The same of the first one in a parcel, or in its ends. Takes it off the front of `rest`. What has a seal is refused. */
int parcel_get_job(struct codec *codec, struct span *rest, struct letter_job *ret, char ret_why[static 160]);
int parcel_get_end(struct codec *codec, struct span *rest, struct letter_end *ret, char ret_why[static 160]);

/* What the subject of a pulled message's answers says. */
struct letter_receipt {
    char consumer[128];
    uint64_t delivered, sequence;
};
/* False: it is no such subject. */
bool letter_get_receipt(const char *reply, struct letter_receipt *ret);

#define LETTER_ANSWER 64u
/* What is answered to give a message back. It is handed out again after half a second, and after twice as long each
 * time, up to half a minute: a machine that can take none for a while is not taken for one that the job has killed. */
void letter_give_back(const char *reply, char ret[static LETTER_ANSWER]);
