// Everything a page of the console needs.
import * as actions from "./actions.js";
import * as live from "./live.js";
import * as theme from "./theme.js";
import * as time from "./time.js";

theme.start();
time.start();
actions.start();
live.start();
document.addEventListener("htmx:afterSettle", () => time.write());
