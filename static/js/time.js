// Times: stored in UTC, shown in the reader's zone, relative ones ticking. The server's clock is the clock.
const YEAR = 365 * 86400;
let skew = 0; // server minus browser, in milliseconds

/** Learn the server's clock from a Date header or a timestamp. @param {string | null} stamp */
export function learn(stamp) {
  const at = Date.parse(stamp || "");
  if (!Number.isNaN(at) && Math.abs(at - Date.now()) > 1500) skew = at - Date.now();
}

/** The same words as console.shown.span. @param {number} seconds */
export function span(seconds) {
  const whole = Math.floor(Math.max(seconds, 0));
  if (whole < 60) return `${whole} s`;
  if (whole < 600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** @param {HTMLTimeElement} element */
function words(element) {
  const at = new Date(element.dateTime);
  const age = (Date.now() + skew - at.getTime()) / 1000;
  switch (element.dataset.as) {
    case "clock":
      return age < 86400 ? at.toLocaleTimeString([], { hour12: false }) : clockWithDay(at, age);
    case "left":
      return age < 0 ? span(-age) : "now";
    case "ago":
      return `${span(age)} ago`;
    default:
      return span(age);
  }
}

function clockWithDay(at, age) {
  const day = { day: "numeric", month: "short", ...(age > YEAR ? { year: "numeric" } : {}) };
  return `${at.toLocaleDateString([], day)} ${at.toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit" })}`;
}

/** Write every time below `root`. @param {ParentNode} root */
export function write(root = document) {
  for (const element of root.querySelectorAll("time[data-as]")) {
    const text = words(element);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** A <time> as the server would render it. */
export function make(stamp, as) {
  if (!stamp) return document.createTextNode("–");
  const element = document.createElement("time");
  element.dateTime = element.title = stamp;
  element.dataset.as = as;
  element.textContent = words(element);
  return element;
}

function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const hours = Math.trunc(minutes / 60);
  const rest = Math.abs(minutes % 60);
  return `UTC${minutes ? (minutes > 0 ? "+" : "−") + Math.abs(hours) + (rest ? `:${String(rest).padStart(2, "0")}` : "") : ""}`;
}

export function start() {
  const shown = document.getElementById("zone");
  if (shown) shown.textContent = zone();
  write();
  setInterval(() => document.hidden || write(), 1000);
}
