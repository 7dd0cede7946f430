// A sentence that goes away by itself; never the only copy of an error.
let timer = 0;

export function toast(text) {
  const element = document.getElementById("toast");
  element.textContent = text;
  element.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (element.hidden = true), 4000);
}
