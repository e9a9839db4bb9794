// Draws scenes and grids, whose coordinates come from the server.

import { h, s, cut } from "./dom.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const letter = 7.2; // width of a letter, about

function box(b, extra) {
  const classes = ["box", b.kind, extra, b.bad && "bad", b.idle && "idle"].filter(Boolean).join(" ");
  const words = [b.title, ...(b.text ?? []), b.bad && "has a problem"].filter(Boolean).join(", ");
  const chars = Math.floor((b.w - 16) / letter);
  const drawn = [
    s("title", {}, words),
    s("rect", { x: b.x, y: b.y, width: b.w, height: b.h, rx: 5 }),
    s("text", { class: "title", x: b.x + 8, y: b.y + 16 }, cut((b.bad ? "✕ " : "") + b.title, chars)),
    (b.text ?? []).map((t, i) => s("text", { class: "small", x: b.x + 8, y: b.y + 32 + i * 15 }, cut(t, chars + 1))),
  ];
  if (b.link) return s("a", { class: classes, href: "#/" + b.link, "aria-label": words, "data-key": b.id }, drawn);
  return s("g", { class: classes, role: "img", tabindex: extra || b.kind === "hardware" || b.kind === "software" ? undefined : 0, "aria-label": words, "data-key": b.id }, drawn);
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("");

function way(line) {
  const width = line.width ?? (line.percent ? 1.5 + line.percent / 28 : undefined);
  const drawn = [s("path", { class: `way ${line.place}`, d: path(line.points), "stroke-width": width }, s("title", {}, line.words))];
  if (line.percent && !still.matches) {
    const dots = line.dots ?? 1 + Math.round(line.percent / 30);
    for (let i = 0; i < dots; i++) {
      drawn.push(s("circle", { class: `dot ${line.place}`, r: 4.5 },
        s("animateMotion", { dur: line.place === "hardware" ? "3s" : line.place === "drop" ? "1s" : "5s", begin: `${(-i * 5) / dots}s`, repeatCount: "indefinite", path: path(line.points) })));
    }
  }
  if (line.label) {
    const [x, y] = middle(line.points);
    drawn.push(s("text", { class: `label ${line.place}`, x, y: y - 4, "text-anchor": "middle", "aria-hidden": "true" }, cut((line.place === "drop" ? "✕ " : "") + line.label, 24)));
  }
  return drawn;
}

/** middle is that of the longest piece of a line. */
function middle(points) {
  let best = points[0], longest = -1;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i - 1], [u, v] = points[i];
    if (Math.hypot(u - x, v - y) > longest) { longest = Math.hypot(u - x, v - y); best = [(x + u) / 2, (y + v) / 2]; }
  }
  return best;
}

/** keys moves the focus between the boxes of a drawing by the left and right arrows. */
function keys(e) {
  const all = [...e.currentTarget.querySelectorAll("a.box, g.box[tabindex]")];
  const next = all[all.indexOf(document.activeElement) + ({ ArrowRight: 1, ArrowLeft: -1 }[e.key] ?? NaN)];
  if (!next) return;
  e.preventDefault();
  next.focus();
}

const key = (place, words) => h("span", {}, s("svg", { width: 34, height: 8, "aria-hidden": "true" },
  s("path", { class: `way ${place}`, d: "M0 4H34", "stroke-width": 3 })), words);

/** drawing draws a scene, with the same in words below it. */
export function drawing(scene, name, legend = { hardware: "in hardware", software: "in software (TC, Open vSwitch)", link: "belongs together" }) {
  scene = { ...scene, boxes: scene.boxes ?? [], lines: scene.lines ?? [] };
  const bands = scene.boxes.filter((b) => b.kind === "hardware" || b.kind === "software");
  const others = scene.boxes.filter((b) => !bands.includes(b));
  const picture = s("svg", { class: "scene", width: scene.width, height: scene.height, role: "group", "aria-label": name, "data-testid": "scene", onkeydown: keys },
    (scene.frames ?? []).map((b) => box(b, "frame")), bands.map((b) => box(b)), scene.lines.map(way), others.map((b) => box(b)));
  const pause = h("button", { type: "button", "data-key": "pause", onclick: () => {
    const stop = !picture.animationsPaused();
    if (stop) picture.pauseAnimations(); else picture.unpauseAnimations();
    pause.textContent = stop ? "move the dots" : "stop the dots";
  } }, "stop the dots");
  return [
    h("div", { class: "legend" }, Object.entries(legend).map(([place, words]) => key(place, words)), !still.matches && pause),
    h("div", { class: "scroll" }, picture),
    h("details", {}, h("summary", {}, "the drawing in words"),
      h("ul", {}, scene.lines.filter((l) => l.place !== "link").map((l) => h("li", {}, l.words)))),
  ];
}

/** squares draws a square a node. Arrow keys move between them; one of them is in the order of the tab key. Of thousands of
 * nodes, elements take most of the time: the shares of all are one, as are the signs, and a title is made when the mouse is on its square. */
export function squares(grid) {
  const size = grid.cell - 3;
  const parts = grid.squares.map((q) => [q, Math.round((size * q.fill) / 100)]).filter(([, part]) => part)
    .map(([q, part]) => `M${q.x + 1.5} ${q.y + 1.5 + size - part}h${size}v${part}h${-size}z`).join("");
  const signs = grid.squares.filter((q) => q.state.startsWith("broken"))
    .map((q) => `M${q.x + 3} ${q.y + 3}l${size - 3} ${size - 3}m0 ${3 - size}l${3 - size} ${size - 3}`).join("");
  const one = (q, i) => s("a", { class: `square ${q.state}`, href: "#/node/" + q.node, "aria-label": q.words, tabindex: i ? -1 : 0, "data-key": q.node },
      s("rect", { class: "back", x: q.x + 1.5, y: q.y + 1.5, width: size, height: size, rx: 2 }));
  const columns = Math.floor(grid.width / grid.cell);
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  return h("div", { class: "scroll" }, s("svg", { class: "scene", width: grid.width, height: grid.height, role: "group", "aria-label": "nodes", "data-testid": "grid",
    onmouseover: (e) => {
      const square = e.target.closest?.(".square");
      if (square && !square.querySelector("title")) square.append(s("title", {}, square.getAttribute("aria-label")));
    },
    onkeydown: (e) => {
      const all = [...e.currentTarget.querySelectorAll(".square")];
      const next = all[all.indexOf(document.activeElement) + steps[e.key]];
      if (!next) return;
      e.preventDefault();
      document.activeElement.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    } }, grid.zones.map((z) => s("text", { x: 2, y: z.y, class: "title" }, z.title)), grid.squares.map(one), s("path", { class: "parts", d: parts }), s("path", { class: "signs", d: signs })));
}

/** gridLegend says what squares mean. */
export function gridLegend() {
  const sample = (state, fill, sign, words) => h("span", {}, s("svg", { width: 20, height: 20, "aria-hidden": "true" }, s("g", { class: `square ${state}` },
    s("rect", { class: "back", x: 2, y: 2, width: 16, height: 16, rx: 2 }), fill && s("rect", { class: "part", x: 2, y: 18 - fill, width: 16, height: fill, rx: 2 }),
    sign && s("path", { class: "sign", d: "M4 4l12 12m0-12l-12 12" }))), words);
  return h("p", { class: "legend" }, "filled: share of packets in hardware", sample("measured", 16, false, "100 %"), sample("measured", 8, false, "50 %"),
    sample("idle", 0, false, "offload on, no traffic"), sample("none", 0, false, "no such NIC"), sample("degraded", 8, false, "works in part"), sample("broken", 0, true, "broken"));
}
