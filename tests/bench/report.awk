# SPDX-License-Identifier: Apache-2.0
#
# report.awk: the table, the JSON and the marks of samples: lines of BENCH IMPL PARAMS METRIC VALUE, one a run.
#
#     awk -v json=FILE -v check=1 -f report.awk SAMPLES     json: "" for none; check: exit status 1 where a mark is missed

function median(key,   n, i, j, t, v) {
  n = split(runs[key], v, " ")
  for (i = 2; i <= n; i++)
    for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
  return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
function as_json(params,   p, n, i, kv, s) {
  n = split(params, p, ",")
  for (i = 1; i <= n; i++) {
    split(p[i], kv, "=")
    s = s (i > 1 ? "," : "") "\"" kv[1] "\":" (kv[2] ~ /^[0-9]+$/ ? kv[2] : "\"" kv[2] "\"")
  }
  return "{" s "}"
}
function value(bench, impl, params,   key) { key = bench " " impl " " params; return key in med ? med[key] : -1 }
function best(bench, params,   i, least, v) { # of the peers
  least = -1
  for (i = 1; i <= split("redis nats gearmand beanstalkd", servers, " "); i++) {
    v = value(bench, servers[i], params)
    if (v > 0 && (least < 0 || v < least)) least = v
  }
  return least
}
# a mark: what / of what must be at most so much
function mark(name, a, b, most,   r) {
  if (a < 0 || b <= 0) return
  r = a / b
  printf "%-58s %9.3f  at most %-7.3f %s\n", name, r, most, r <= most ? "met" : "MISSED"
  if (r > most) missed = 1
}
{
  key = $1 " " $2 " " $3
  if (!(key in runs)) { order[++n_keys] = key; metric[key] = $4 }
  runs[key] = runs[key] (runs[key] == "" ? "" : " ") $5
}
END {
  printf "%-8s %-11s %-43s %12s %-8s %s\n", "bench", "impl", "params", "median", "unit", "least .. most"
  for (i = 1; i <= n_keys; i++) {
    key = order[i]
    split(key, k, " ")
    med[key] = median(key)
    n = split(runs[key], v, " ")
    lo = hi = v[1] + 0
    for (j = 2; j <= n; j++) { if (v[j] + 0 < lo) lo = v[j] + 0; if (v[j] + 0 > hi) hi = v[j] + 0 }
    printf "%-8s %-11s %-43s %12.3f %-8s %.3f .. %.3f\n", k[1], k[2], k[3], med[key], metric[key], lo, hi
    if (json != "") {
      gsub(" ", ",", runs[key])
      printf "{\"bench\":\"%s\",\"impl\":\"%s\",\"params\":%s,\"metric\":\"%s\",\"value\":%s,\"runs\":[%s],\"better\":\"lower\"}\n", \
        k[1], k[2], as_json(k[3]), metric[key], med[key], runs[key] >json
    }
  }
  print ""
  s = value("fib", "serial", "n=34,workers=1")
  mark("fib, 1 worker / serial", value("fib", "wsd", "n=34,workers=1"), s, 0.85)
  mark("fib, 2 workers / serial", value("fib", "wsd", "n=34,workers=2"), s, 0.43)
  mark("fib in a plugin / linked in, 1 worker", value("fib", "wsd-plugin", "n=34,workers=1"), value("fib", "wsd", "n=34,workers=1"), 1.1)
  mark("fib by clang / by gcc, 1 worker", value("fib", "wsd-clang", "n=34,workers=1"), value("fib", "wsd", "n=34,workers=1"), 2)
  mark("fib through the table / by macros, 1 worker", value("fib", "wsd", "n=34,form=table,workers=1"), value("fib", "wsd", "n=34,workers=1"), 5)
  for (w = 1; w <= 2; w++) {
    a = value("fib", "wsd", "n=34,workers=" w)
    mark("fib / TBB, workers " w, a, value("fib", "tbb", "n=26,workers=" w), 0.05)
    mark("fib / OpenMP, workers " w, a, value("fib", "openmp", "n=26,workers=" w), 0.05)
    mark("fib / Go, workers " w, a, value("fib", "go", "n=24,workers=" w), 0.05)
  }
  for (w = 8; w <= 32; w *= 4) {
    # throughput: half a second; n=34, in the table, is over after a time slice or two
    mark("fib, half a second, workers " w " / 2", value("fib", "wsd", "n=42,workers=" w), value("fib", "wsd", "n=42,workers=2"), 1.1)
  }
  s = value("nqueens", "serial", "n=13,workers=1")
  mark("nqueens, 1 worker / serial", value("nqueens", "wsd", "n=13,workers=1"), s, 1.03)
  mark("nqueens, 2 workers / serial", value("nqueens", "wsd", "n=13,workers=2"), s, 1 / 1.9)
  for (t = 1; t <= 3; t += 2) {
    s = value("uts", "serial", "tree=T" t ",workers=1")
    mark("uts T" t ", 1 worker / serial", value("uts", "wsd", "tree=T" t ",workers=1"), s, 1.03)
    mark("uts T" t ", 2 workers / serial", value("uts", "wsd", "tree=T" t ",workers=2"), s, 1 / 1.9)
  }
  mark("loop of 1,000, 1 worker, ns", value("loop", "wsd", "n=1000,workers=1"), 1, 1)
  mark("loop of 1,000, 2 workers, ns", value("loop", "wsd", "n=1000,workers=2"), 1, 2.2)
  mark("loop of 10,000,000, 1 worker, ns", value("loop", "wsd", "n=10000000,workers=1"), 1, 3.5)
  mark("loop of 10,000,000, 2 workers, ns", value("loop", "wsd", "n=10000000,workers=2"), 1, 6.5)
  mark("hidden work / 51 ms, 2 workers", value("loop", "wsd", "hidden=51ms,workers=2"), 51, 1.05)
  mark("hidden work is stealable after, us, 2 workers", value("loop", "wsd", "hidden=hunger,workers=2"), 1, 50)
  for (w = 1; w <= 2; w++) {
    a = value("inject", "wsd", "n=1000000,workers=" w)
    mark("inject / Java, workers " w, a, value("inject", "java", "n=1000000,workers=" w), 0.9)
    mark("inject / TBB, workers " w, a, value("inject", "tbb", "n=1000000,workers=" w), 0.25)
    a = value("wake", "wsd", "gap=0,form=run,workers=" w)
    mark("wake, back to back, us, workers " w, a, 1000, 0.2)
    a = value("wake", "wsd", "gap=1ms,form=run,workers=" w)
    mark("wake, 1 ms between / TBB, workers " w, a, value("wake", "tbb", "gap=1ms,workers=" w), 0.7)
    mark("wake, 1 ms between / futex, workers " w, a, value("wake", "serial", "gap=1ms,workers=1"), 1.5)
  }
  for (w = 1; w <= 2; w++) {
    for (h = 1; h <= 4; h++) {
      s = (h % 2 ? "fault" : "kill") ",resident=" (h > 2 ? "1GiB" : "0")
      mark("first job again, by=" s ", ms, workers " w, value("recover", "wsd", "by=" s ",kills=30,workers=" w), 1, 10)
    }
    mark("p99 during a crash storm / without, workers " w, value("storm", "wsd", "storm=on,quantile=p99,workers=" w), \
      value("storm", "wsd", "storm=off,quantile=p99,workers=" w), 10)
  }
  for (w = 1; w <= 2; w++) {
    mark("direct call, both sides awake, us, workers " w, value("call", "wsd", "way=lane,sides=awake,quantile=p50,workers=" w), 1, 1)
    mark("direct call, asleep / futex, workers " w, value("call", "wsd", "way=lane,sides=asleep,quantile=p50,workers=" w), \
      value("call", "wsd", "way=futex,sides=asleep,quantile=p50,workers=1"), 1.5)
  }
  for (h = 1; h <= 2; h++) {
    s = "lane=socket,pinned=" (h == 1 ? "yes" : "no")
    a = value("call", "wsd", s ",quantile=p50")
    mark("call by socket, " s ", p50 / Redis", a, value("call", "redis", s ",quantile=p50"), 0.5)
    mark("call by socket, " s ", p50 / NATS", a, value("call", "nats", s ",quantile=p50"), 0.4)
    mark("call by socket, " s ", p50 / gearmand", a, value("call", "gearmand", s ",quantile=p50"), 0.15)
    mark("call by socket, " s ", p99 / Redis", value("call", "wsd", s ",quantile=p99"), value("call", "redis", s ",quantile=p99"), 0.6)
    mark("call by socket, " s ", CPU a job / Redis", value("call", "wsd", s ",cpu=server"), value("call", "redis", s ",cpu=server"), 0.5)
  }
  mark("256 in flight, ns a job / best peer", value("pipeline", "wsd", "lane=socket,flight=256"), best("pipeline", "lane=socket,flight=256"), 1 / 3)
  mark("256 in flight as arrays, ns a job / best peer", value("pipeline", "wsd", "lane=array,flight=256"), best("pipeline", "lane=socket,flight=256"), 1 / 10)
  a = value("pipeline", "wsd", "lane=map,flight=8192")
  mark("wsd_map(), ns a job / best peer with 256 in flight", a, best("pipeline", "lane=socket,flight=256"), 1 / 10)
  mark("wsd_map(), ns a job / best peer with 8,192 in flight", a, best("pipeline", "lane=socket,flight=8192"), 1 / 10)
  mark("256 in flight by the direct lane, ns a job / best peer", value("pipeline", "wsd", "lane=direct,flight=256"), best("pipeline", "lane=socket,flight=256"), 1 / 10)
  a = value("runner", "wsd", "lane=runner,pinned=no,quantile=p50")
  mark("a runner, p50 / gearmand", a, value("runner", "gearmand", "lane=socket,pinned=no,quantile=p50"), 0.25)
  mark("a runner, p50 / Redis", a, value("runner", "redis", "lane=socket,pinned=no,quantile=p50"), 0.6)
  mark("a runner, one core, p50 / four hops", value("runner", "wsd", "lane=runner,pinned=yes,quantile=p50"), \
    value("runner", "wsd", "lane=hops,pinned=yes,quantile=p50"), 1.5)
  mark("a runner, 256 in flight, ns a job / best peer", value("runner", "wsd", "lane=runner,flight=256"), best("runner", "lane=socket,flight=256"), 1 / 2)
  mark("64 clients, ns a job / best peer", value("clients", "wsd", "clients=64"), best("clients", "clients=64"), 1 / 1.5)
  mark("64 clients, p99 / NATS", value("clients", "wsd", "clients=64,quantile=p99"), value("clients", "nats", "clients=64,quantile=p99"), 0.5)
  for (h = 1; h <= 64; h *= 64) {
    s = "lane=socket,size=" h "MiB"
    mark("payload by socket, " h " MiB, ms / best peer", value("payload", "wsd", s), best("payload", s), 1 / 1.5)
    mark("payload by arena, " h " MiB, ms / best peer by socket", value("payload", "wsd", "lane=arena,size=" h "MiB"), best("payload", s), 1 / 5)
  }
  for (h = 1000; h <= 10000000; h *= 10) {
    mark("submit with " h " queued, ns", value("queue", "wsd", "queued=" h), 1, 1e9 / 0.7e6)
    mark("memory with " h " queued, bytes a job", value("queue", "wsd", "queued=" h ",memory=server"), 1, 200)
  }
  for (h = 1000; h <= 10000; h *= 10)
    mark("KiB a connection at " h " / Redis", value("connections", "wsd", "connections=" h), value("connections", "redis", "connections=" h), 1)
  mark("first answer after exec, ms", value("start", "wsd", "first=job"), 1, 10)
  a = value("idle", "wsd", "connections=1000,seconds=10")
  if (a >= 0) printf "%-58s %9d  at most 0       %s\n", "times that a thread of an idle wsd ran in ten seconds", a, (a > 0 ? "MISSED" : "met")
  missed = missed || a > 0
  a = value("durable", "raw", "submitters=1,flight=1,room=there,quantile=p50")
  mark("durable, 1 submitter, p50 / write+fdatasync", value("durable", "wsd", "submitters=1,flight=1,quantile=p50"), a, 1.5)
  for (h = 1; h <= 2; h++) {
    s = h == 1 ? "submitters=64,flight=1" : "submitters=1,flight=256"
    a = value("durable", "wsd", s)
    mark("durable, " s ", us a job / Redis", a, value("durable", "redis", s), 1)
    mark("durable, " s ", us a job / beanstalkd", a, value("durable", "beanstalkd", s), 1)
    mark("durable, " s ", us a job / RabbitMQ", a, value("durable", "rabbitmq", s), 1)
  }
  for (h = 0; h <= 100; h += 100) {
    a = value("client", "wsd", "way=direct,job=" h "us")
    s = value("client", "wsd", "way=threads,job=" h "us")
    mark("a service on libuv, jobs of " h " us, time a request / threads", a, s, h ? 1 / 0.95 : 1)
    mark("the same, CPU of the application / threads", value("client", "wsd", "way=direct,job=" h "us,cpu=application"), \
      value("client", "wsd", "way=threads,job=" h "us,cpu=application"), h ? 0.2 : 0.6)
  }
  a = value("client", "wsd", "way=direct,flight=64,job=5us,cpu=application")
  s = value("client", "wsd", "way=socket,flight=64,job=5us,cpu=application")
  mark("64 jobs of 5 us in flight, us of CPU of the application", a < s ? a : s, 1, 1)
  s = value("client", "nginx", "/static")
  mark("nginx, time a request with a job by the socket / without", value("client", "nginx", "/job"), s, 1 / 0.65)
  mark("nginx, time a request with a job by the lane / without", value("client", "nginx", "/direct"), s, 1 / 0.65)
  product = 1
  for (h = 0; h < 20; h++) {
    a = value("tools", "wsd", "search=" h)
    s = value("tools", "grep", "search=" h)
    rg = value("tools", "ripgrep", "search=" h)
    if (rg > 0 && rg < s) s = rg
    mark("search, pattern " h " / the better of grep and ripgrep", a, s, 1)
    if (a >= 0) product *= a / s
  }
  if (a >= 0) mark("search, the geometric mean", product ^ (1 / 20), 1, 0.7)
  mark("decompress, one frame / zstd", value("tools", "wsd", "decompress=one"), value("tools", "zstd", "decompress=one"), 1)
  mark("decompress, many frames / zstd", value("tools", "wsd", "decompress=many"), value("tools", "zstd", "decompress=many"), 0.6)
  mark("compress / zstd -T0", value("tools", "wsd", "compress"), value("tools", "zstd", "compress"), 0.8)
  mark("archive / tar with zstd -T", value("tools", "wsd", "archive"), value("tools", "tar", "archive"), 0.8)
  mark("pipe to pipe / cat", value("tools", "wsd", "pipe"), value("tools", "cat", "pipe"), 1 / 0.9)
  mark("sort / sort --parallel", value("tools", "wsd", "sort"), value("tools", "sort", "sort"), 0.8)
  mark("text:unique / uniq", value("tools", "wsd", "unique"), value("tools", "uniq", "unique"), 0.8)
  mark("text:frequency / sort --parallel | uniq -c", value("tools", "wsd", "frequency"), value("tools", "sort", "frequency"), 0.57)
  mark("text:join / join", value("tools", "wsd", "join"), value("tools", "join", "join"), 0.8)
  mark("checksum / sha256sum by xargs -P", value("tools", "wsd", "checksum"), value("tools", "sha256sum", "checksum"), 0.8)
  mark("checksum xxh3 / xxhsum by xargs -P", value("tools", "wsd", "checksum=xxh3"), value("tools", "xxhsum", "checksum=xxh3"), 0.8)
  mark("checksum of small files by map / sha256sum by xargs -P", value("tools", "wsd", "small"), value("tools", "sha256sum", "small"), 0.5)
  mark("image, resize of a JPEG / convert", value("tools", "wsd", "image=resize"), value("tools", "convert", "image=resize"), 0.2)
  mark("image, thumbnail of a JPEG / convert", value("tools", "wsd", "image=thumbnail"), value("tools", "convert", "image=thumbnail"), 0.2)
  mark("count / wc by xargs -P", value("tools", "wsd", "count"), value("tools", "wc", "count"), 0.8)
  mark("Python, call() by the lane, us", value("python", "wsd", "what=call,lane=direct"), 1, 5)
  mark("Python, submit().result(), us", value("python", "wsd", "what=submit"), 1, 60)
  mark("asyncio, 1,000 in flight, us a job", value("python", "wsd", "what=asyncio,way=submit,flight=1000"), 1, 1e6 / 60000)
  for (h = 1; h <= 256; h += 255) {
    a = value("python", "wsd", "what=task,flight=" h)
    mark("a task in Python, " h " in flight, time / Celery", a, value("python", "celery", "what=task,flight=" h), 1 / 10)
    mark("a task in Python, " h " in flight, time / RQ", a, value("python", "rq", "what=task,flight=" h), 1 / 3)
  }
  mark("wsd.Executor, submit().result() / ProcessPoolExecutor", value("python", "wsd", "what=executor,way=result"), \
    value("python", "wsd", "what=processpool,way=result"), 0.5)
  mark("wsd.Executor, many submits at once / the same", value("python", "wsd", "what=executor,way=at-once"), \
    value("python", "wsd", "what=processpool,way=at-once"), 0.5)
  mark("wsd.Executor, map() of small calls / the same", value("python", "wsd", "what=executor,way=map"), \
    value("python", "wsd", "what=processpool,way=map"), 0.25)
  mark("a task that sums 64 MiB / the sum", value("python", "wsd", "what=numpy,of=task"), value("python", "wsd", "what=numpy,of=sum"), 1.2)
  for (w = 1; w <= 3; w += 2) {
    for (h = 1; h <= 2; h++) {
      s = "what=rate,servers=" w ",nodes=" h
      mark("fleet, " w " server(s), " h " node(s), us a job / bare loop", value("fleet", "wsd", s), value("fleet", "bare", s ",ends=stored"), 1 / 0.8)
    }
    s = "what=one,servers=" w ",nodes=1"
    a = value("fleet", "wsd", s ",quantile=p50")
    mark("fleet, " w " server(s), one at a time, p50 / bare loop", a, value("fleet", "bare", s ",ends=stored,quantile=p50"), 1.3)
    if (w == 1) mark("fleet, one at a time, p50, us", a, 1, 1000)
  }
  mark("fleet, wsd_map(), us a call", value("fleet", "wsd", "what=map,servers=1,nodes=2"), 1, 1e6 / 200000)
  mark("fleet, a local job beside it, p50 / beside the bare loop", value("fleet", "wsd", "what=local,beside=fleet,quantile=p50"), \
    value("fleet", "wsd", "what=local,beside=bare,quantile=p50"), 1.05)
  mark("a job under a profile at 99 Hz / without", value("profile", "wsd", "fib=44,rate=99"), value("profile", "wsd", "fib=44,rate=0"), 1.02)
  s = value("neighbour", "wsd", "attack=nothing,quantile=p99")
  for (i = 1; i <= n_keys; i++)
    if (order[i] ~ /^neighbour / && order[i] !~ /attack=nothing/) {
      split(order[i], k, "[ =,]")
      if (order[i] ~ /quantile=p99/) mark("beside " k[4] ", p99 / undisturbed", med[order[i]], s, 10)
      if (order[i] ~ /quantile=max/) mark("beside " k[4] ", max, ms", med[order[i]], 1000, 50)
    }
  mark("wsctl submit, us", value("shell", "wsd", "what=submit"), 1, 1500)
  mark("wsctl submit / fork and exec of nothing", value("shell", "wsd", "what=submit"), value("shell", "wsd", "what=nothing"), 2.5)
  exit check != "" && missed
}
