// The live feed: snapshot, deltas by rev, beats against silent loss, and polling where sockets or Redis fail.
// The server side is console/live/; the protocol is described in socket.py.
import * as figures from "./figures.js";
import { fingerprint } from "./hash.js";
import * as pulse from "./pulse.js";
import { refresh } from "./refresh.js";
import * as table from "./table.js";

const RETRY = [500, 30000]; // milliseconds, full jitter
const POLL = 5000;
const QUIET = 1200; // after this long without a delta the table is brought in line with the database
const AT_LEAST = 30000; // and at least this often while it differs
const SLOWLY = 60000; // what ages by itself, such as the waits of the last 15 minutes, is read this often
const TICK = 250;
const GIVE_UP_AFTER = 2; // sockets that failed in a row before we poll

let socket = null;
let wait = RETRY[0];
let failures = 0;
let seq = "";
let feedDown = false;
let dirtySince = 0;
let lastDelta = 0;
let mismatch = null;
let readAt = performance.now();
let polled = 0;
let page = "";

const live = () => document.getElementById("live");
const here = () => location.pathname + location.search;
const jitter = Math.random() / 2;
const open = () => socket !== null && socket.readyState === WebSocket.OPEN && seq !== "";

function subscribe() {
  const { epoch, query, onePool, sandbox } = live().dataset;
  page = here();
  const view = { list: query !== undefined, query: query ?? "", pool: onePool ?? null, sandbox: sandbox ?? "" };
  socket.send(JSON.stringify({ t: "sub", epoch, ids: table.ids(), ...view }));
}

function connect() {
  const at = new URL(live().dataset.socket, location.href);
  at.protocol = at.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(at);
  const mine = socket;
  seq = "";
  socket.onopen = () => mine === socket && subscribe();
  socket.onmessage = (event) => mine === socket && hear(JSON.parse(event.data));
  socket.onclose = (event) => mine === socket && closed(event.code);
}

function closed(code) {
  socket = null;
  if (code === 4401 || code === 4403) return void refresh(); // The server refuses the page as well, and it says why.
  failures = seq === "" ? failures + 1 : 0;
  pulse.set(failures >= GIVE_UP_AFTER ? "polling" : "catching-up");
  if (failures >= GIVE_UP_AFTER) poll();
  setTimeout(() => socket === null && connect(), Math.random() * wait + 100);
  wait = Math.min(RETRY[1], wait * 2);
}

const hearing = {
  snap(message) {
    [seq, wait, failures] = [message.seq, RETRY[0], 0];
    feedDown = message.epoch === "";
    apply(message);
    pulse.set(feedDown ? "polling" : "live");
  },
  delta(message) {
    if (seq === "") return; // Said to the subscription before; the snapshot is on its way.
    if (message.from !== seq) return void resync();
    seq = message.to;
    apply(message);
  },
  resync,
  beat(message) {
    check(message.count, message.hash);
  },
  feed(message) {
    feedDown = message.state === "down";
    pulse.set(feedDown ? "polling" : "catching-up");
    if (!feedDown) resync();
  },
};

function hear(message) {
  pulse.hear();
  hearing[message.t]?.(message);
}

function apply({ rows, born, now }) {
  const changed = rows.map(table.patch).filter(Boolean).length + born.map(table.born).filter(Boolean).length;
  if (live().dataset.sandbox && rows.some((line) => line.rev > shownRev(line.id))) dirty(true);
  if (now) {
    figures.show(now);
    if (now.decision && String(now.decision) !== live().dataset.decision) dirty();
  }
  if (changed) dirty();
  if (!table.admit()) dirty(true);
}

function shownRev(id) {
  return Number(document.querySelector(`[data-id="${id}"]`)?.dataset.rev ?? 0);
}

function dirty(soon = false) {
  lastDelta = soon ? 0 : performance.now();
  dirtySince ||= performance.now();
}

/** Everything may have been missed: read the page anew, then subscribe with what it shows. */
async function resync() {
  pulse.set("catching-up");
  table.forget();
  const done = await refresh();
  if (!done) return void socket?.close();
  document.body.dataset.resyncs = String(Number(document.body.dataset.resyncs ?? 0) + 1);
  again();
}

function again() {
  seq = "";
  if (socket?.readyState === WebSocket.OPEN) subscribe();
}

/** Compare with the database, unless the reader holds the table or it is on the move: then the next beat tells. */
function check(count, hash) {
  if (!table.settled() || dirtySince) return;
  const rows = table.shown();
  if (rows.length === count && fingerprint(rows) === hash) {
    mismatch = null;
    return;
  }
  if (mismatch === hash) resync();
  else dirty();
  mismatch = hash;
}

/** Quiet again: marked rows go, the table becomes what the database says. */
async function settle() {
  const now = performance.now();
  const quiet = now - lastDelta > QUIET && now - dirtySince > QUIET && !table.marked();
  if (!dirtySince || !(quiet || now - dirtySince > AT_LEAST * (0.75 + jitter))) return;
  if (!table.settled() || here() !== page) return;
  dirtySince = 0;
  readAt = performance.now();
  if (await refresh()) again();
}

async function poll() {
  if (open() && !feedDown) return;
  if (performance.now() - polled < POLL || document.hidden) return;
  polled = performance.now();
  if (await refresh()) {
    pulse.hear();
    if (socket === null || feedDown) pulse.set("polling");
  } else {
    pulse.set("stale");
  }
}

function tick() {
  if (document.hidden) return;
  table.admit();
  table.sweep();
  if (performance.now() - readAt > SLOWLY * (0.75 + jitter)) dirty(true);
  settle();
  if (feedDown || failures >= GIVE_UP_AFTER) poll();
}

export function start() {
  if (!live()) return;
  table.start(
    () => refresh().then((done) => done && (table.forget(), again())),
    () => dirty(true),
  );
  pulse.start();
  pulse.set("catching-up");
  document.addEventListener("acted", () => open() || refresh());
  document.addEventListener("visibilitychange", () => document.hidden || (open() ? dirty(true) : poll()));
  document.addEventListener("htmx:afterSettle", () => {
    table.forget();
    table.press();
    dirtySince = 0;
    again();
  });
  addEventListener("pagehide", () => socket?.close());
  connect();
  setInterval(tick, TICK);
}
