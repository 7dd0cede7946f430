// Patches the figures, bars, chips and the sentence with what the live feed says. Changes only what differs.

function put(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function chip(element, [kind, word]) {
  if (!element) return;
  if (element.dataset.kind !== kind) element.dataset.kind = kind;
  put(element, word);
}

function bar(svg, { segments, title }) {
  if (!svg) return;
  const rects = svg.querySelectorAll("rect");
  segments.forEach(([, x, width], index) => {
    rects[index]?.setAttribute("x", x);
    rects[index]?.setAttribute("width", width);
  });
  put(svg.querySelector("title"), title);
  svg.setAttribute("aria-label", title);
}

function figure(box, { parts, note, tone }) {
  const value = box.querySelector(".value");
  const text = parts.map(([number, unit]) => number + unit).join(" / ");
  if (value.textContent !== text) {
    value.replaceChildren(
      ...parts.flatMap(([number, unit], index) => {
        const nodes = [document.createTextNode((index ? " / " : "") + number)];
        if (unit) nodes.push(Object.assign(document.createElement("span"), { className: "unit", textContent: unit }));
        return nodes;
      }),
    );
  }
  put(box.querySelector(".note"), note);
  if (box.dataset.tone !== tone) box.dataset.tone = tone;
}

function pool(box, { figures, bar: shown, chip: state }) {
  for (const [name, text] of Object.entries(figures)) put(box.querySelector(`[data-n="${name}"]`), text);
  bar(box.querySelector("svg.bar"), shown);
  chip(box.querySelector(".chip"), state);
}

function sentence(box, { kind, lead, text, at, action, href }) {
  box.dataset.kind = kind;
  put(box.querySelector("[data-lead]"), lead);
  put(box.querySelector("[data-text]"), text);
  const time = box.querySelector("time");
  if (time && at) time.dateTime = time.title = at;
  const link = box.querySelector("[data-action]");
  link.hidden = !href;
  if (href) link.setAttribute("href", href);
  put(link, action);
}

/** @param {any} now what console.figures.team_now or pool_now made */
export function show(now) {
  for (const box of document.querySelectorAll("[data-figure]")) {
    const shown = now.figures[box.dataset.figure];
    if (shown) figure(box, shown);
  }
  for (const box of document.querySelectorAll("[data-pool]")) {
    const shown = now.pools[box.dataset.pool];
    if (shown) pool(box, shown);
  }
  for (const box of document.querySelectorAll("[data-count]")) put(box, now.states[box.dataset.count] ?? box.textContent);
  const quota = document.querySelector("[data-quota]");
  if (quota && now.quota) {
    put(quota.querySelector("[data-used]"), now.quota.used);
    bar(quota.querySelector("svg.bar"), now.quota.bar);
  }
  const headline = document.querySelector("[data-headline]");
  if (headline && now.headline) sentence(headline, now.headline);
}
