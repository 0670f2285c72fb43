// SPDX-License-Identifier: Apache-2.0
//
// page.js: draws what /api tells. Each view is a function of the last look; a look comes each second. What comes from wsd
// is put in as text, never as HTML.
'use strict';

const state = { look: null, before: null, away: 'connecting', filter: { text: '', state: '' }, span: 'hour', charts: [], job: null };

// --- the token: it comes behind # in the address, which browsers send to nobody --------------------------------------

if (location.hash.startsWith('#token=')) {
  sessionStorage.setItem('token', location.hash.slice(7));
  history.replaceState(null, '', '/#/');
}

function ask(path, options = {}) {
  const token = sessionStorage.getItem('token');
  const headers = { 'X-Wsd-Web': '1', ...(token ? { Authorization: 'Bearer ' + token } : {}) };
  return fetch(path, { ...options, headers, cache: 'no-store' });
}

async function askJson(path, options) {
  const response = await ask(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function notice(words) {
  const p = element('p', {}, words);
  document.getElementById('notice').append(p);
  setTimeout(() => p.remove(), 8000);
}

async function act(action, what) {
  try {
    await askJson('/api/act', { method: 'POST', body: JSON.stringify({ action, ...what }) });
    if (what.id && state.job && state.job.id === what.id) loadJob(what.id);
  } catch (error) {
    notice(action + ': ' + error.message);
  }
}

// --- elements --------------------------------------------------------------------------------------------------------

function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === 'onclick' || key === 'oninput' || key === 'onchange') e[key] = value;
    else if (key === 'width') e.style.width = value;
    else if (key === 'heat') e.style.backgroundColor = `rgb(var(--heat) / ${value})`;
    else if (value !== false && value !== null) e.setAttribute(key, value);
  }
  e.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return e;
}

function table(caption, heads, rows, empty) {
  if (!rows.length) return element('p', { class: 'empty' }, empty);
  const cell = (tag) => (content, i) => {
    const classes = heads[i][1] || '';
    return element(tag, { class: classes, ...(tag === 'th' ? { scope: 'col' } : {}) }, content);
  };
  return element('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': caption },
    element('table', {}, element('thead', {}, element('tr', {}, heads.map((h, i) => cell('th')(h[0], i)))),
      element('tbody', {}, rows.map((row) => element('tr', {}, row.map(cell('td')))))));
}

const count = (n) => Number(n).toLocaleString('en');
const counted = (n, one, more = one + 's') => `${count(n)} ${n === 1 ? one : more}`; // its words, by the number
const some = (n) => n === undefined ? '' : count(n);
const rate = (n) => (n >= 100 ? count(Math.round(n)) : n.toFixed(1));

function duration(usec) {
  if (!usec) return '0';
  if (usec < 1000) return usec + ' µs';
  if (usec < 1e6) return (usec / 1000).toFixed(usec < 1e4 ? 2 : 1) + ' ms';
  if (usec < 60e6) return (usec / 1e6).toFixed(2) + ' s';
  if (usec < 3600e6) return Math.floor(usec / 60e6) + ' min ' + Math.round((usec % 60e6) / 1e6) + ' s';
  return (usec / 3600e6).toFixed(1) + ' h';
}

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return n ? (unit ? n.toFixed(1) : n) + ' ' + units[unit] : '';
}

function moment(usec) {
  return usec ? new Date(usec / 1000).toLocaleString() : '–';
}

const badStates = ['failed', 'crashed', 'timed-out', 'interrupted'];

function stateMark(name) {
  const kind = name === 'succeeded' ? 'ok' : badStates.includes(name) ? 'bad' : name === 'cancelled' ? 'warn' : '';
  return element('span', { class: 'state ' + kind }, name);
}

const nameOf = (job) => (job.function && job.function !== job.plugin ? job.plugin + ':' + job.function : job.plugin);
// The digits that count jobs (daemon/table/ids.c). Those before are the same for all jobs of a minute.
const shortId = (id) => id.slice(16, 24);
const jobLink = (id) => element('a', { href: '#/job/' + id, title: id }, shortId(id));

function button(words, action, what, danger) {
  return element('button', { type: 'button', class: danger ? 'danger' : '', onclick: () => act(action, what) }, words);
}

// --- what two looks tell ---------------------------------------------------------------------------------------------

function growth(name) {
  const { look, before } = state;
  if (!before || !look.counters || !before.counters) return 0;
  const seconds = (look.time_usec - before.time_usec) / 1e6;
  return seconds > 0 ? Math.max(0, (look.counters[name] - before.counters[name]) / seconds) : 0;
}

// Of each function, what was counted at the looks of the last minutes.
const seenFunctions = new Map(), keptLooks = 180;

const nothing = { good: 0, bad: 0, crashed: 0, timed_out: 0, failed: 0, interrupted: 0, refused: 0 };

function noteFunctions(look) {
  for (const f of look.functions || []) {
    const key = nameOf(f) + (manyUsers() ? ' of ' + f.user : '');
    // one that was not there at the last look had done nothing until then
    if (!seenFunctions.has(key)) seenFunctions.set(key, state.before ? [{ ...nothing, usec: state.before.time_usec }] : []);
    const all = seenFunctions.get(key);
    all.push({ usec: look.time_usec, good: f.succeeded + f.cancelled, bad: f.failed + f.timed_out + f.crashed + f.interrupted,
      crashed: f.crashed, timed_out: f.timed_out, failed: f.failed, interrupted: f.interrupted, refused: f.refused });
    if (all.length > keptLooks) all.shift();
  }
}

function manyUsers() {
  const all = state.look.functions || [];
  return all.some((f) => f.user !== all[0].user);
}

function lately(all) {
  const first = all[0], last = all[all.length - 1];
  return Object.fromEntries(Object.keys(last).map((key) => [key, Math.max(0, last[key] - first[key])]));
}

const outcomes = ['succeeded', 'failed', 'cancelled', 'timed_out', 'crashed', 'interrupted'];

// What an administrator should know, in words: [kind, words].
function health() {
  const { look } = state, found = [];
  for (const [key, all] of seenFunctions) {
    const last = all[all.length - 1], grown = lately(all), ended = grown.good + grown.bad;
    if (!grown.bad) continue;
    const since = Math.round((last.usec - all[0].usec) / 1e6);
    const kinds = [['crashed', grown.crashed], ['timed out', grown.timed_out], ['failed', grown.failed], ['interrupted', grown.interrupted]];
    const words = kinds.filter(([, n]) => n).map(([kind, n]) => `${count(n)} ${kind}`).join(', ');
    found.push([grown.bad > ended / 2 && grown.bad > 4 ? 'bad' : 'warn', `${key}: of ${counted(ended, 'job')} in ${since} s ${words}` +
      (grown.refused ? `, and ${counted(grown.refused, 'was', 'were')} refused` : '')]);
  }
  for (const f of look.functions || [])
    if (f.in_quarantine) {
      const until = f.on_trial ? 'a job of it runs on trial' : `tried again at ${new Date((look.time_usec + f.quarantine_usec) / 1000).toLocaleTimeString()}`;
      found.push(['bad', `${nameOf(f)} of ${f.user} is in quarantine, ${until}: crashed ${counted(f.crashes, 'time')}, at last: ${f.why}`]);
    }
  for (const r of look.runners || [])
    if (r.waiting && !r.runners.length) found.push(['bad', `${counted(r.waiting, 'job waits', 'jobs wait')} for a runner of ${r.name}, and none is connected`]);
  for (const gate of look.gates || []) {
    const name = gate.tag ? 'tag ' + gate.tag : gate.plugin ? gate.plugin + (gate.function ? ':' + gate.function : '') : 'everything';
    if (gate.drained) found.push(['warn', 'wsd is draining: new jobs are refused']);
    else if (gate.paused) found.push(['warn', `${name} is paused: ${counted(gate.waiting, 'job waits', 'jobs wait')}`]);
  }
  for (const e of (look.pool || { executors: [] }).executors)
    if (e.error) found.push(['bad', `executor ${e.executor} of ${e.user} does not answer: ${e.error}`]);
  if (look.counters.jobs_dead) found.push(['warn', `${counted(look.counters.jobs_dead, 'durable job is', 'durable jobs are')} out of retries`]);
  found.push(...fleetHealth(look.fleet || {}));
  if (growth('jobs_refused') > 0) found.push(['warn', `${rate(growth('jobs_refused'))} jobs a second are refused`]);
  return found.length ? found : [['ok', 'All is well.']];
}

// --- charts ----------------------------------------------------------------------------------------------------------

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

function dropCharts() {
  state.charts.forEach((chart) => chart.destroy());
  state.charts = [];
}

// Samples as points; where a step is missing there is a gap.
function points(data, column) {
  const result = [];
  let last = 0;
  for (const sample of data.samples) {
    if (last && sample[0] - last > 3 * data.step) result.push({ x: last + data.step, y: null });
    last = sample[0];
    result.push({ x: last, y: sample[column + 1] });
  }
  return result;
}

// Of a point of time within the span that the charts show.
function atTime(usec) {
  const time = new Date(usec / 1000);
  return state.span === 'week' ? time.toLocaleString([], { weekday: 'short', hour: '2-digit', minute: '2-digit' }) : time.toLocaleTimeString();
}

const lines = [
  { title: 'Jobs a second, by outcome', series: [['succeeded', 'good'], ['failed', 'bad'], ['crashed', 'bad', [6, 3]],
    ['timed_out', 'warn'], ['cancelled', 'faint'], ['direct', 'accent']] },
  { title: 'Jobs that wait, and that executors have', series: [['queued', 'warn'], ['handed_over', 'accent']] },
];

function drawCharts(data) {
  dropCharts();
  if (typeof Chart === 'undefined') return;
  Chart.defaults.color = color('faint');
  Chart.defaults.borderColor = color('line');
  lines.forEach((line, i) => {
    const canvas = document.getElementById('chart-' + i);
    if (!canvas) return;
    state.charts.push(new Chart(canvas, {
      type: 'line',
      data: { datasets: line.series.map(([name, shade, dash]) => ({ label: name.replace('_', ' '), borderColor: color(shade),
        backgroundColor: color(shade), borderDash: dash, borderWidth: 1.5, pointRadius: 0, spanGaps: false,
        data: points(data, data.series.indexOf(name)) })) },
      options: { animation: false, maintainAspectRatio: false, parsing: false, normalized: true,
        interaction: { mode: 'index', intersect: false },
        plugins: { title: { display: true, text: line.title, color: color('text') }, legend: { position: 'bottom' },
          tooltip: { callbacks: { title: (items) => moment(items[0].parsed.x * 1e6) } } },
        scales: { x: { type: 'linear', ticks: { maxTicksLimit: 6, callback: (x) => atTime(x * 1e6) } },
          y: { beginAtZero: true } } },
    }));
  });
}

async function loadCharts() {
  try {
    drawCharts(await askJson('/api/history?span=' + state.span));
  } catch (error) {
    notice('history: ' + error.message);
  }
}

// --- views -----------------------------------------------------------------------------------------------------------

function card(words, value) {
  return element('div', { class: 'card' }, element('span', {}, words), element('b', {}, value));
}

function overview() {
  const c = state.look.counters;
  return [
    element('h2', {}, 'Health'),
    element('ul', { class: 'health' }, health().map(([kind, words]) => element('li', { class: kind }, words))),
    element('div', { class: 'cards', id: 'cards' },
      card('jobs a second', rate(outcomes.reduce((sum, name) => sum + growth('jobs_' + name), 0))),
      card('direct calls a second', rate(growth('direct_calls'))),
      card('open', count(c.jobs_open)), card('queued', count(c.jobs_queued)), card('with executors', count(c.jobs_handed_over)),
      card('succeeded', count(c.jobs_succeeded)), card('failed', count(c.jobs_failed)), card('crashed', count(c.jobs_crashed)),
      card('refused', count(c.jobs_refused)), card('connections', count(c.connections))),
    element('div', { class: 'tools' }, element('label', {}, 'Time ',
      element('select', { onchange: (e) => { state.span = e.target.value; loadCharts(); } },
        [['hour', 'last hour'], ['week', 'last seven days']].map(([value, words]) =>
          element('option', { value, ...(state.span === value ? { selected: '' } : {}) }, words))))),
    element('div', { class: 'charts' }, lines.map((line, i) => element('div', { class: 'chart' },
      element('canvas', { id: 'chart-' + i, role: 'img', 'aria-label': line.title })))),
    element('h2', {}, 'Workers'), heat(),
  ];
}

// The part of the time that each worker had a CPU.
function heat() {
  const { look, before } = state, old = new Map();
  for (const w of (before && before.pool ? before.pool.workers : [])) old.set(w.executor + '.' + w.worker, w);
  const seconds = before ? (look.time_usec - before.time_usec) / 1e6 : 0;
  const workers = (look.pool || { workers: [] }).workers.filter((w) => w.kind === 'worker');
  if (!workers.length) return element('p', { class: 'empty' }, 'No executor runs: one starts with the first job.');
  return element('div', { class: 'heat', id: 'heat' }, workers.map((w) => {
    const last = old.get(w.executor + '.' + w.worker);
    const busy = last && seconds > 0 ? Math.min(1, Math.max(0, (w.counters.cpu_usec - last.counters.cpu_usec) / 1e6 / seconds)) : 0;
    const percent = Math.round(busy * 100) + ' %';
    return element('span', { heat: (busy * 0.55).toFixed(2), title: `worker ${w.executor}.${w.worker}: ${percent} busy` }, percent);
  }));
}

// Jobs a second over the last looks, as a line.
function sparkline(all) {
  const rates = all.slice(1).map((now, i) => (now.good + now.bad - all[i].good - all[i].bad) / ((now.usec - all[i].usec) / 1e6)).slice(-60);
  const most = Math.max(1, ...rates), step = 100 / Math.max(1, rates.length - 1);
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), line = document.createElementNS(svg.namespaceURI, 'polyline');
  svg.setAttribute('viewBox', '0 0 100 24');
  svg.setAttribute('class', 'spark');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `up to ${rate(most)} a second`);
  line.setAttribute('points', rates.map((r, i) => `${(i * step).toFixed(1)},${(22 - 20 * r / most).toFixed(1)}`).join(' '));
  svg.append(line);
  return svg;
}

const percentiles = (h) => (h.count ? `${duration(h.p50)} / ${duration(h.p99)}` : '');

function functions() {
  const gates = new Map(), users = manyUsers();
  for (const g of state.look.gates || []) gates.set(g.plugin + ':' + g.function, g);
  const rows = (state.look.functions || []).map((f) => {
    const gate = gates.get(f.plugin + ':' + f.function) || gates.get(f.plugin + ':'), what = { plugin: f.plugin, function: f.function };
    const all = seenFunctions.get(nameOf(f) + (users ? ' of ' + f.user : '')) || [], bad = f.failed + f.timed_out + f.crashed + f.interrupted;
    const limits = [f.in_quarantine ? 'in quarantine' : '', ...(gate ? [gate.paused ? 'paused' : '', gate.limit ? 'at most ' + gate.limit : '',
      gate.waiting ? counted(gate.waiting, 'waits', 'wait') : ''] : [])].filter(Boolean).join(', ');
    return [f.plugin ? nameOf(f) : 'others', f.user, sparkline(all), count(f.succeeded), bad ? element('span', { class: 'state bad' }, count(bad)) : '0',
      count(f.refused), percentiles(f.queue_usec), percentiles(f.run_usec), duration(f.cpu_usec.sum), limits,
      f.plugin ? [gate && gate.paused ? button('Resume', 'resume', { plugin: gate.plugin, function: gate.function }) : button('Pause', 'pause', what), ' ',
        f.in_quarantine ? button('Release', 'release', what) : null] : ''];
  });
  return [element('h2', {}, 'Functions'), element('p', {}, 'Since wsd has started. Times are the median and what 99 % of the jobs stay below.'),
    table('Functions', [['Function'], ['User'], ['The last minute'], ['Succeeded', 'n'], ['Ended badly', 'n'], ['Refused', 'n'], ['Waited', 'n'], ['Ran', 'n'],
      ['CPU time', 'n'], ['Limits'], ['']], rows, 'No job has ended yet.')];
}

function matches(job) {
  const { text, state: wanted } = state.filter;
  return (!wanted || job.state === wanted) &&
    (!text || [nameOf(job), job.user, job.id, job.error, job.tags].some((s) => s.toLowerCase().includes(text.toLowerCase())));
}

function jobRows(jobs) {
  return jobs.map((job) => [jobLink(job.id), nameOf(job), stateMark(job.state), job.user, moment(job.submitted_usec),
    duration(job.queued_usec), duration(job.run_usec), job.error || job.status]);
}

const jobHeads = [['Job', 'id'], ['Function'], ['State'], ['User'], ['Submitted', 'time'], ['Waited', 'n'], ['Ran', 'n'], ['', 'wrap']];

function jobs() {
  const states = ['', 'held', 'delayed', 'queued', 'running', 'succeeded', 'failed', 'cancelled', 'timed-out', 'crashed', 'interrupted'];
  const found = (state.look.jobs || []).filter(matches).slice(-200).reverse();
  return [element('h2', {}, 'Jobs'),
    element('div', { class: 'tools' },
      element('label', {}, 'Find ', element('input', { type: 'search', id: 'find', value: state.filter.text,
        oninput: (e) => { state.filter.text = e.target.value; draw(); } })),
      element('label', {}, 'State ', element('select', { id: 'state', onchange: (e) => { state.filter.state = e.target.value; draw(); } },
        states.map((s) => element('option', { value: s, ...(state.filter.state === s ? { selected: '' } : {}) }, s || 'any'))))),
    table('Jobs', jobHeads, jobRows(found), 'No such job is known. wsd keeps the ends of detached jobs only.')];
}

function describe(pairs) {
  return element('dl', {}, pairs.filter(([, value]) => value !== '' && value !== null && value !== undefined)
    .map(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
}

async function loadJob(id) {
  try {
    state.job = await askJson('/api/jobs/' + id);
  } catch (error) {
    state.job = { id, missing: error.message };
  }
  draw();
}

// What it waits for, itself, and what waits for it: three columns, with a line from each to the next.
function neighbours(job) {
  if (!job.waits_on.length && !job.awaited_by.length) return null;
  const rows = Math.max(job.waits_on.length, job.awaited_by.length, 1), height = 28 * rows + 8, middle = height / 2;
  const svg = (name, attributes, ...children) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    e.append(...children);
    return e;
  };
  const column = (ids, x, from) => ids.flatMap((id, i) => {
    const y = (i + 0.5) * (height / ids.length);
    const [x1, x2] = from ? [x + 110, 220] : [330, x];
    return [svg('path', { d: `M${x1} ${from ? y : middle} C${(x1 + x2) / 2} ${from ? y : middle} ${(x1 + x2) / 2} ${from ? middle : y} ${x2} ${from ? middle : y}` }),
      svg('a', { href: '#/job/' + id }, svg('rect', { x, y: y - 11, width: 110, height: 22, rx: 4 }), svg('text', { x: x + 55, y: y + 4 }, shortId(id)))];
  });
  const words = `waits for ${count(job.waits_on.length)}, holds up ${counted(job.awaited_by.length, 'job')}`;
  return [element('h2', {}, 'What it waits for, and what waits for it'),
    svg('svg', { viewBox: `0 0 550 ${height}`, class: 'graph', role: 'img', 'aria-label': words, id: 'graph' },
      ...column(job.waits_on, 0, true), ...column(job.awaited_by, 440, false),
      svg('rect', { x: 220, y: middle - 11, width: 110, height: 22, rx: 4, class: 'own' }), svg('text', { x: 275, y: middle + 4 }, shortId(job.id)))];
}

const isOpen = (job) => ['held', 'delayed', 'queued', 'running'].includes(job.state);

function oneJob(id) {
  const job = state.job && state.job.id === id ? state.job : null;
  if (!job) return [element('p', { class: 'empty' }, 'asking')];
  if (job.missing) return [element('h2', {}, 'Job ' + id), element('p', { class: 'bad' }, job.missing)];
  const all = job.queued_usec + job.run_usec || 1;
  return [element('h2', {}, nameOf(job) + ' '), stateMark(job.state),
    element('div', { class: 'tools' }, isOpen(job) ? button('Cancel', 'cancel', { id }, true) : null,
      job.dead ? [button('Requeue', 'requeue', { id }), button('Drop', 'drop', { id }, true)] : null),
    job.total ? element('progress', { max: job.total, value: job.done, 'aria-label': 'progress' }) : null,
    element('div', { class: 'line', role: 'img', 'aria-label': `waited ${duration(job.queued_usec)}, ran ${duration(job.run_usec)}` },
      element('span', { class: 'queued', width: (100 * job.queued_usec / all) + '%' }),
      element('span', { class: 'ran', width: (100 * job.run_usec / all) + '%' })),
    describe([['Id', job.id], ['User', job.user], ['Submitted', moment(job.submitted_usec)], ['Waited', duration(job.queued_usec)],
      ['Ran', duration(job.run_usec)], ['CPU time', duration(job.cpu_usec)], ['Worker', job.worker],
      ['Tries', job.attempts + (job.retries ? ` of ${job.retries + 1}` : '')], ['Waits for', job.waits_for ? counted(job.waits_for, 'job') : ''],
      ['Goes on in', job.due_usec ? duration(job.due_usec) : ''], ['Durable', job.durable ? 'yes' : ''], ['Tags', job.tags],
      ['Says', job.status], ['Exit status', isOpen(job) ? '' : String(job.exit)], ['Error', job.error]]),
    neighbours(job),
    job.backtrace ? [element('h2', {}, 'Where it crashed'), element('pre', { id: 'backtrace' }, job.backtrace)] : null].flat();
}

function pool() {
  const p = state.look.pool || { workers: [], executors: [] };
  return [element('h2', {}, 'Executors'),
    table('Executors', [['Executor', 'n'], ['User'], ['Workers', 'n'], ['Process', 'n'], ['Up for', 'n'], ['Memory', 'n'], ['Descriptors', 'n'], ['']],
      p.executors.map((e) => [e.executor, e.user, e.workers, e.pid || '', duration(e.age_usec), bytes(e.memory), e.descriptors || '', e.error]), 'No executor runs: one starts with the first job.'),
    element('h2', {}, 'Workers'), heat(),
    table('Workers', [['Worker'], ['Kind'], ['CPU'], ['Jobs', 'n'], ['Tasks stolen', 'n'], ['CPU time', 'n']],
      p.workers.map((w) => [w.executor + '.' + w.worker, w.kind, w.cpu < 0 ? 'any' : w.cpu, count(w.counters.roots || 0),
        count(w.counters.stolen || 0), duration(w.counters.cpu_usec)]), ''),
    element('h2', {}, 'Runners'),
    table('Runners', [['Name'], ['User'], ['Process', 'n'], ['Jobs', 'n'], ['At once', 'n'], ['Since', 'time'], ['']],
      (state.look.runners || []).flatMap((name) => name.runners.map((r) =>
        [name.name, r.user, r.pid, r.running, r.credit, moment(r.since_usec), r.leaving ? 'leaving' : ''])), 'No runner is connected.')];
}

function dead() {
  return [element('h2', {}, 'Dead letter'),
    element('p', {}, 'Durable jobs that have ended badly and are out of retries.'),
    table('Dead letter', [...jobHeads, ['']], (state.look.dead || []).map((job, i) =>
      [...jobRows([job])[0], [button('Requeue', 'requeue', { id: job.id }), ' ', button('Drop', 'drop', { id: job.id }, true)]]),
    'There are none.')];
}

function schedules() {
  return [element('h2', {}, 'Schedules'),
    table('Schedules', [['Name'], ['User'], ['When'], ['Function'], ['Next', 'time'], ['Last', 'time'], ['Runs', 'n'], ['']],
      (state.look.schedules || []).map((s) => [s.name, s.user, s.calendar, nameOf(s), moment(s.next_usec), moment(s.ran_usec),
        count(s.runs), s.running ? 'running' : s.error || s.state]), 'There are none.')];
}

function limits() {
  return [element('h2', {}, 'Limits in force'),
    table('Limits', [['Key'], ['Value', 'n'], ['User'], ['']],
      (state.look.limits || []).map((l) => [l.key, l.value.replace(/^\d+/, count) || 'none', l.user || 'all', l.moved ? 'changed by hand' : '']), ''),
    element('h2', {}, 'Paused or limited'),
    table('Paused or limited', [['What'], ['Paused'], ['At most', 'n'], ['Running', 'n'], ['Waiting', 'n']],
      (state.look.gates || []).map((g) => [g.tag ? 'tag ' + g.tag : g.plugin ? g.plugin + (g.function ? ':' + g.function : '') : 'everything',
        g.drained ? 'draining' : g.paused ? 'yes' : '', g.limit || '', count(g.running), count(g.waiting)]), 'Nothing is.')];
}

// What each user has had, and has now. Ends are counted since wsd has started; what is open is known of the newest jobs.
function users() {
  const all = new Map();
  const of = (user) => {
    if (!all.has(user)) all.set(user, { good: 0, bad: 0, refused: 0, cpu: 0, open: 0, running: 0, executors: 0, memory: 0, limits: [] });
    return all.get(user);
  };
  for (const f of state.look.functions || []) {
    const u = of(f.user);
    u.good += f.succeeded;
    u.bad += f.failed + f.timed_out + f.crashed + f.interrupted + f.cancelled;
    u.refused += f.refused;
    u.cpu += f.cpu_usec.sum;
  }
  for (const job of state.look.jobs || []) {
    of(job.user).open += isOpen(job);
    of(job.user).running += job.state === 'running';
  }
  for (const e of (state.look.pool || { executors: [] }).executors) {
    of(e.user).executors += 1;
    of(e.user).memory += e.memory;
  }
  for (const l of state.look.limits || []) if (l.user) of(l.user).limits.push(l.key + ' = ' + (l.value || 'none'));
  return [element('h2', {}, 'Users'),
    table('Users', [['User'], ['Open', 'n'], ['Running', 'n'], ['Succeeded', 'n'], ['Not succeeded', 'n'], ['Refused', 'n'], ['CPU time', 'n'],
      ['Executors', 'n'], ['Memory', 'n'], ['Limits of its own', 'wrap']],
    [...all].sort((a, b) => b[1].cpu - a[1].cpu).map(([name, u]) => [name, count(u.open), count(u.running), count(u.good), count(u.bad),
      count(u.refused), duration(u.cpu), u.executors, bytes(u.memory), u.limits.join(', ')]), 'Nobody has had a job yet.')];
}

// By wsd-fleet, where wsd-web was told to ask it: { jobs, results, parts, dead, classes } or { error }; {}: not known yet.
function fleetHealth(fleet) {
  if (fleet.error) return [['warn', 'fleet: ' + fleet.error]];
  const found = (fleet.classes || []).filter((c) => c.waiting && !c.requests)
    .map((c) => ['bad', `fleet: ${counted(c.waiting, 'job waits', 'jobs wait')} for ${c.plugin}, and no machine takes ${c.waiting === 1 ? 'it' : 'them'}`]);
  if (fleet.dead && fleet.dead.messages) found.push(['warn', `fleet: ${counted(fleet.dead.messages, 'job')} could not be done anywhere`]);
  return found;
}

function takes(node) {
  const names = node.takes || [];
  return names.join(' ') + (node.plugins > names.length ? ` and ${count(node.plugins - names.length)} more` : '');
}

function fleet() {
  const f = state.look.fleet;
  if (!f) return [element('h2', {}, 'Fleet'), element('p', { class: 'empty' }, 'wsd-web shows the other machines with --fleet.')];
  if (f.error) return [element('h2', {}, 'Fleet'), element('p', { class: 'bad' }, f.error)];
  if (!f.jobs) return [element('h2', {}, 'Fleet'), element('p', { class: 'empty' }, 'asking')];
  return [element('h2', {}, 'Fleet'),
    element('div', { class: 'cards', id: 'fleet-cards' }, card('jobs of all machines', count(f.jobs.messages)), card('results kept', count(f.results.messages)),
      card('parts of large ones', bytes(f.parts.bytes) || '0'), card('could not be done', count(f.dead.messages))),
    element('p', {}, 'A class is the priority of the jobs. Machines that take them ask for more while they have room.'),
    table('Plugins', [['Plugin'], ['Class'], ['Waiting', 'n'], ['With a machine', 'n'], ['Oldest waits', 'n'], ['Handed out again', 'n'], ['Machines that ask', 'n']],
      f.classes.map((c) => [c.plugin, c.class, count(c.waiting), count(c.held), c.waiting ? duration(c.oldest_usec) : '', count(c.redelivered), count(c.requests)]),
      'No machine offers a plugin.'),
    table('Machines', [['Machine'], ['wsd-fleet'], ['Holds', 'n'], ['At most', 'n'], ['Has done', 'n'], ['Its own elsewhere', 'n'], ['Takes', 'wrap']],
      (f.nodes || []).map((n) => [n.node, n.version + (n.leaving ? ', leaving' : ''), some(n.held), some(n.most), some(n.ended), some(n.elsewhere), takes(n)]),
      'No machine is connected.')];
}

function actionLog() {
  const what = (a) => (/^job [0-9a-f]{32}$/.test(a.object) ? jobLink(a.object.slice(4)) : a.object);
  const rows = [...(state.look.actions || [])].reverse().map((a) => [moment(a.time_usec), a.user, a.person, a.action, what(a),
    a.exit ? element('span', { class: 'state bad' }, 'refused (' + a.exit + ')') : 'granted']);
  return [element('h2', {}, 'What was done'),
    element('p', {}, 'The last hundred actions of administrators since wsd began, by whatever way, and those of persons. The log of wsd has older ones.'),
    table('What was done', [['When', 'time'], ['User'], ['For', 'words'], ['Action'], ['What', 'wrap'], ['Result']], rows, 'Nothing yet.')];
}

const views = { '': overview, functions, jobs, pool, dead, schedules, limits, users, fleet, log: actionLog };

// --- drawing ---------------------------------------------------------------------------------------------------------

function route() {
  const [, name = '', rest] = location.hash.split('/');
  return [name, rest];
}

// Makes `from` what `to` is, and keeps what is the same: the focus, a selection, a list that is open.
function morph(from, to) {
  if (from.className === 'charts') return;
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
  for (const { name, value } of [...to.attributes])
    if (name !== 'style' && from.getAttribute(name) !== value) from.setAttribute(name, value);
  from.style.cssText = to.style.cssText; // as an attribute it would be an inline style, which is not allowed here
  if (from.nodeName === 'svg') {
    from.replaceWith(to);
    return;
  }
  for (const handler of ['onclick', 'oninput', 'onchange']) from[handler] = to[handler];
  morphChildren(from, [...to.childNodes]);
}

function morphChildren(parent, wanted) {
  wanted.forEach((to, i) => {
    const from = parent.childNodes[i];
    if (!from) parent.append(to);
    else if (from.nodeName !== to.nodeName || from.id !== to.id) from.replaceWith(to);
    else if (from.nodeType === Node.TEXT_NODE) {
      if (from.data !== to.data) from.data = to.data;
    } else morph(from, to);
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild.remove();
}

function showConnection() {
  const connection = document.getElementById('connection');
  connection.className = state.away ? 'away' : '';
  const words = state.away || `${state.look.wsd}, ${new Date(state.look.time_usec / 1000).toLocaleTimeString()}`;
  if (connection.textContent !== words) connection.textContent = words;
}

function draw() {
  const main = document.getElementById('main'), [name, rest] = route();
  showConnection();
  for (const link of document.querySelectorAll('nav a')) {
    const here = link.getAttribute('href') === '#/' + name || (name === 'job' && link.getAttribute('href') === '#/jobs');
    if (here) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.getElementById('fleet-link').hidden = !state.look || !state.look.fleet;
  if (!state.look) {
    main.replaceChildren(element('p', { class: 'empty' }, state.away));
    return;
  }
  const view = name === 'job' ? () => oneJob(rest) : views[name] || overview;
  morphChildren(main, view().filter(Boolean));
  if (name === '' && !state.charts.length) loadCharts();
}

function go() {
  const [name, rest] = route();
  dropCharts();
  document.getElementById('main').replaceChildren();
  if (name === 'job') loadJob(rest);
  draw();
  document.title = 'wsd' + (name ? ': ' + name : '');
}

// --- looks -----------------------------------------------------------------------------------------------------------

function onLook(look) {
  state.before = state.look;
  state.look = look;
  noteFunctions(look);
  state.away = '';
  const [name, rest] = route();
  if (name === 'job' && state.job && state.job.id === rest && !state.job.missing && isOpen(state.job)) loadJob(rest);
  else draw();
  if (name === '' && look.time_usec % 5e6 < 1e6) loadCharts();
}

function onEvent(text) {
  const name = /^event: (.*)$/m.exec(text), data = /^data: (.*)$/m.exec(text);
  if (!name || !data) return;
  if (name[1] === 'look') {
    onLook(JSON.parse(data[1]));
  } else {
    state.away = JSON.parse(data[1]).error;
    showConnection();
  }
}

// Server-sent events by fetch, since EventSource sends no token.
async function follow() {
  const response = await ask('/api/events');
  if (!response.ok) throw new Error((await response.json()).error);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error('wsd-web has ended');
    const events = (text + value).split('\n\n');
    text = events.pop();
    events.forEach(onEvent);
  }
}

async function run() {
  for (;;) {
    try {
      await follow();
    } catch (error) {
      state.away = error.message;
      if (state.look) showConnection();
      else draw();
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

window.addEventListener('hashchange', go);
go();
run();
