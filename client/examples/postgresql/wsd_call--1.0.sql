-- SPDX-License-Identifier: Apache-2.0

-- The output of a job. The first argument is PLUGIN or PLUGIN:FUNCTION. A plugin may be a path, and wsd may have
-- plugins that run programs or read files: this function allows what the server's user may do at wsd, and so it is
-- only for those to whom it is granted. It is volatile, since a job may do anything; it is safe in parallel workers,
-- since each has a handle of its own.
CREATE FUNCTION wsd_call(function text, input bytea, VARIADIC args text[] DEFAULT '{}') RETURNS bytea
  AS 'MODULE_PATHNAME', 'wsd_call_sql' LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1000;
REVOKE ALL ON FUNCTION wsd_call FROM PUBLIC;

-- The same for an output of at most 2,048 bytes; a larger one is an error, after the job has run. Calls with arguments
-- and input of at most 2,000 bytes go by a direct lane, which is faster.
CREATE FUNCTION wsd_call_small(function text, input bytea, VARIADIC args text[] DEFAULT '{}') RETURNS bytea
  AS 'MODULE_PATHNAME', 'wsd_call_small_sql' LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1000;
REVOKE ALL ON FUNCTION wsd_call_small FROM PUBLIC;
