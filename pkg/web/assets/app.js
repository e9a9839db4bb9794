// Routes addresses (#/view/...) to views, and keeps the open view current by server-sent events.

import { h, age, copy } from "./dom.js";
import * as views from "./views.js";

const titles = { overview: "Overview", worst: "Pods", traffic: "Traffic", map: "Map", flows: "Flows", policies: "Policies", path: "Path", health: "Health" };
const main = document.getElementById("main"), fault = document.getElementById("fault"), foot = document.getElementById("foot");
let stream, shown, taken;

/** route reads an address: #/node/w1, #/pod/shop/web, #/path?from=...&to=... */
function route() {
  const [where, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = (where || "overview").split("/").map(decodeURIComponent);
  const q = new URLSearchParams(query);
  if (rest.length) q.set("name", rest.join("/"));
  return { view, q };
}

function navigation(view) {
  document.getElementById("nav").replaceChildren(...Object.entries(titles).map(([name, title]) =>
    h("a", { href: "#/" + name, "aria-current": name === view && "page" }, title)));
}

/** draw shows a view. What had the focus has it again. */
function draw(view, q, v) {
  const focus = document.activeElement, key = focus?.closest?.("[data-key]")?.dataset.key, typing = main.querySelector("form.ask:focus-within");
  main.replaceChildren(...[views[view](v, q)].flat(Infinity).filter(Boolean));
  if (typing) { // what is typed stays
    main.querySelector("form.ask")?.replaceWith(typing);
    focus.focus();
  }
  if (key) [...main.querySelectorAll("[data-key]")].find((e) => e.dataset.key === key)?.focus();
  shown = v;
  taken = Date.parse(v.taken);
  footer();
}

function footer() {
  const missing = (shown.missing ?? []).map((m) => h("span", {}, "not known: " + m));
  foot.replaceChildren(h("span", { id: "age" }), h("code", { id: "command" }, shown.command), copy("copy as kubectl", () => shown.command), copy("copy link", () => location.href), ...missing);
  tick();
}

function tick() {
  const element = document.getElementById("age");
  if (element && taken) element.textContent = `read ${age(Date.now() - taken)} ago`;
}

function say(text) { if (fault.textContent !== text) fault.textContent = text; }

async function get(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), { code: answer.status });
  return answer;
}

/** follow keeps a view current. EventSource comes back by itself after a cut; a refusal it does not explain, so we ask. A server that
 * fails may be a replica that has ended, so we try again. */
function follow(view, q) {
  const address = `${view}?${q}`;
  stream = new EventSource("api/v1/stream/" + address);
  stream.addEventListener("view", (e) => { say(""); draw(view, q, JSON.parse(e.data)); });
  stream.addEventListener("age", (e) => { say(""); taken = Date.parse(JSON.parse(e.data)); tick(); });
  stream.addEventListener("fault", (e) => {
    const told = JSON.parse(e.data);
    say(told.error);
    if (told.code === 401) stream.close();
  });
  const own = stream;
  stream.addEventListener("error", async () => {
    say("the connection is cut; trying again");
    if (own.readyState !== EventSource.CLOSED) return;
    let refused = false;
    try { await get("api/v1/views/" + address); } catch (e) {
      refused = e.code < 500;
      if (own === stream) say(e.message || "the server fails; trying again");
    }
    if (!refused) setTimeout(() => own === stream && follow(view, q), 2000);
  });
}

async function open() {
  stream?.close();
  stream = undefined;
  const { view, q } = route();
  navigation(view);
  say("");
  main.replaceChildren();
  foot.replaceChildren();
  taken = undefined;
  document.title = `${titles[view] ?? q.get("name") ?? view} · ovn-offload`;
  try {
    if (view === "help") {
      main.replaceChildren(h("pre", {}, await (await get("api/v1/help/" + encodeURIComponent(q.get("name")))).text()));
    } else if (view === "path") {
      main.replaceChildren(h("h1", {}, "Path"), views.ask(q));
      if (q.get("from") && q.get("to")) {
        main.append(h("p", {}, "reading flows"));
        follow(view, q);
      }
    } else if (view === "flows") {
      main.replaceChildren(h("h1", {}, "Flows"), views.askFlows(q));
      if (q.get("pod") || q.get("node") || q.get("namespace")) follow(view, q);
    } else if ((view === "map" || view === "policies") && !q.get("namespaces")) {
      main.replaceChildren(h("h1", {}, titles[view]), views.askNamespaces(view, q));
    } else if (views[view]) follow(view, q);
    else say("there is no view " + view);
  } catch (e) { say(e.message); }
}

document.getElementById("find").addEventListener("submit", (e) => {
  e.preventDefault();
  const name = document.getElementById("name").value.trim().replace(/^(node|pod)\//, "");
  if (name) location.hash = (name.includes("/") ? "#/pod/" : "#/node/") + name;
});
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
addEventListener("hashchange", open);
setInterval(tick, 1000);
open();
