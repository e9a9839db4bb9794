// Elements without templates: text is never read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false));
  return element;
}

/** h makes an HTML element. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** s makes an SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** cut takes the middle out of a name that is too long. */
export function cut(text, length) {
  if (text.length <= length) return text;
  const half = Math.max(1, Math.floor((length - 1) / 2));
  return text.slice(0, half) + "…" + text.slice(text.length - half);
}

/** copy is a button that copies a text. */
export function copy(words, text) {
  const button = h("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "copied";
    setTimeout(() => { button.textContent = words; }, 1500);
  } }, words);
  return button;
}

/** age is a time span in its largest units. */
export function age(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** table makes a table of cells: text, elements, or {number: text}. */
export function table(name, head, rows) {
  const cell = (tag, c) => (c?.number !== undefined ? h(tag, { class: "number" }, c.number) : h(tag, {}, c));
  return h("div", { class: "scroll" }, h("table", { "aria-label": name },
    h("thead", {}, h("tr", {}, head.map((c) => fill(cell("th", c), { scope: "col" }, [])))),
    h("tbody", {}, rows.map((r) => h("tr", {}, r.map((c) => cell("td", c)))))));
}

/** object links a name such as pod/shop/web or node/w1 to its view. */
export function object(name) {
  return /^(node\/|pod\/[^/]+\/)/.test(name) ? h("a", { href: "#/" + name }, name) : name;
}
