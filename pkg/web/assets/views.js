// One function a view: from what the server says to elements.

import { h, s, age, copy, table, object } from "./dom.js";
import { drawing, squares, gridLegend } from "./scene.js";

const tile = (value, words) => h("li", {}, h("b", {}, value), h("span", {}, words));
const mark = (kind, words) => h("span", { class: `mark ${kind}` }, words ?? kind);
const see = (page) => h("a", { href: "#/help/" + page }, page);

function bar(percent) {
  return h("span", { class: "share" }, s("svg", { class: "bar", viewBox: "0 0 90 10", role: "img", "aria-label": `${percent} %` },
    s("rect", { x: .5, y: .5, width: 89, height: 9 }), s("rect", { class: "part", width: percent * .9, height: 10 })), ` ${percent} %`);
}

function problems(list) {
  if (!list?.length) return h("p", { "data-testid": "problems" }, mark("good", "no problem"));
  return h("div", { "data-testid": "problems" }, table("problems", ["", "what", "message", "since", "see"], list.map((p) => [
    mark(p.severity), h("span", {}, p.objects.map((o, i) => [i > 0 && ", ", object(o)]), p.omitted ? ` and ${p.omitted} more` : ""),
    p.message, p.since ? age(Date.now() - Date.parse(p.since)) : "", see(p.see)])));
}

function tiles(a) {
  const on = a.offload ?? {};
  return h("ul", { class: "tiles" }, tile(`${a.nodes.ready} of ${a.nodes.all}`, "nodes without a problem"),
    a.traffic?.nodes && tile(`${a.traffic.hardwarePercent} %`, `in hardware, mean of ${a.traffic.nodes} nodes`),
    tile(`${on.on ?? 0} / ${on.off ?? 0} / ${on.none ?? 0}`, "offload on / off / no such NIC"),
    tile(`${a.vfs.used} of ${a.vfs.total}`, "VFs used"), a.dpus && tile(`${a.dpus.ready} of ${a.dpus.all}`, "DPUs ready"));
}

const counted = (list, what) => list.map((c) => `${c.value} (${c.count} ${c.count === 1 ? what : what + "s"})`).join(", ");

export function overview(v) {
  const a = v.answer;
  return [h("h1", {}, "Overview"), tiles(a), h("h2", {}, "Problems"), problems(a.problems), h("h2", {}, "Nodes"), gridLegend(), squares(v.grid),
    a.traffic?.outside?.length && h("p", {}, "first reason for traffic outside hardware: " + counted(a.traffic.outside, "pod"))];
}

export function health(v) {
  const a = v.answer, agents = a.agents, relay = agents.relay;
  const share = (ready, all) => mark(ready < all ? (ready ? "degraded" : "broken") : "good", `${ready} of ${all}`);
  return [h("h1", {}, "Health"), tiles(a), h("h2", {}, "Problems"), problems(a.problems), h("h2", {}, "Parts of the network"),
    table("parts", ["part", "ready", "newest version"], (a.components ?? []).map((c) => {
      const r = (a.rollout ?? []).find((one) => one.name === c.name);
      return [c.name, share(c.ready, c.all), r && (r.unseen ? mark("degraded", "not begun") : r.updated < r.all ? mark("degraded", `${r.updated} of ${r.all} pods`) : mark("good", `${r.updated} of ${r.all} pods`))];
    })),
    a.leader && h("p", {}, "leader: " + a.leader), h("h2", {}, "Agents"),
    table("agents", ["what", "nodes"], [["have reported", share(agents.reported, agents.nodes)], ["serve flows to the relay", `${agents.serving} of ${agents.nodes}`],
      relay ? ["answered the relay", share(relay.answered, relay.answered + (relay.failed?.length ?? 0))] : ["relay", "none is used for this view"]]),
    relay?.failed?.length && h("ul", {}, relay.failed.slice(0, 20).map((f) => h("li", {}, f))),
    h("h2", {}, "Versions"), table("versions", ["program", "versions"], Object.entries(a.versions ?? {}).map(([name, list]) => [name, h("span", {}, counted(list, "node"), list.length > 1 && [" ", mark("degraded", "differ")])])),
    a.pairs?.length && [h("h2", {}, "Hosts and their DPUs"), table("DPUs", ["host", "DPU"], a.pairs.map((p) => [object("node/" + p.host), mark(p.state === "ready" ? "good" : "broken", p.state)]))],
    h("h2", {}, "Certificates and tokens"), a.certificates?.length ? problems(a.certificates) :
      h("p", {}, "No Event of the last hour is about a certificate. The ends of certificates are in metrics alone: ", see("certificate-expires"))];
}

/** yaml is the command that prints an object, to copy. */
function yaml(...words) {
  const command = `kubectl get ${words.join(" ")} -o yaml`;
  return h("p", { class: "command" }, h("code", {}, command), copy("copy", () => command));
}

export function node(v) {
  const a = v.answer, st = a.status ?? {};
  return [h("h1", {}, `Node ${a.node}`), yaml(`node/${a.node}`, `nodeoffload/${a.node}`), h("p", {}, `offload ${st.offload ?? "unknown"}${st.reason ? ": " + st.reason : ""}`,
    " · ", h("a", { href: "#/path?from=" + encodeURIComponent("node/" + a.node) }, "a path from here")), drawing(v.scene, "NICs and pods of " + a.node),
    h("h2", {}, "Problems"), problems(a.problems),
    st.devices?.length && [h("h2", {}, "NICs"), table("NICs", ["NIC", "uplink", "product", "mode", "link", "VFs used", "limit"],
      st.devices.map((d) => [d.name, d.uplink, d.product, d.mode, d.link, `${d.vfs.used} of ${d.vfs.total}`, d.limit]))],
    st.policies?.length && [h("h2", {}, "Policies"), table("policies", ["policy", "NIC", "state", "message"], st.policies.map((p) => [p.policy, p.device, p.state, p.message]))]];
}

export function pod(v) {
  const a = v.answer, [namespace, name] = a.pod.split("/");
  return [h("h1", {}, `Pod ${a.pod}`), yaml(`pod/${name}`, "-n", namespace), h("p", {}, a.phase.toLowerCase(), a.node && [" on ", object("node/" + a.node)], a.hostNetwork && ", with the node's own network",
    " · ", h("a", { href: "#/flows?pod=" + encodeURIComponent(a.pod) }, "flows"), " · ", h("a", { href: "#/path?from=" + encodeURIComponent("pod/" + a.pod) }, "a path from here")),
    (a.traffic ?? []).map((t) => h("p", {}, `${t.port}: `, bar(t.packets.hardware), ` of the packets in hardware, ${t.packets.tc} % in tc, ${t.packets.ovs} % in ovs`)),
    a.unlisted && h("p", {}, "Its share is better than that of the pods that are listed for its node."),
    v.scene && drawing(v.scene, "the way of the pod's packets"),
    a.reasons?.length && [h("h2", {}, "Outside hardware, because"), table("reasons", ["reason", "detail", "means", "do"], a.reasons.map((r) => [mark("software", r.reason), r.detail, r.meaning, r.action]))],
    a.streams?.length && [h("h2", {}, "Streams"), streamTable(a.streams)],
    advice(a.advice),
    v.flows && [h("h2", {}, "Flows"), flowTable(v.flows)],
    h("h2", {}, "Problems"), problems(a.problems),
    v.events?.length && [h("h2", {}, "Events"), table("events", ["last seen", { number: "times" }, "reason", "note"], v.events.map((e) => [
      age(Date.now() - Date.parse(e.last)) + " ago", { number: String(e.count) }, mark(e.type === "Warning" ? "degraded" : "good", e.reason), e.note]))],
    a.networks?.length && [h("h2", {}, "Networks"), table("networks", ["network", "addresses", "MAC"], a.networks.map((n) => [n.network, (n.addresses ?? []).join(" "), n.mac]))]];
}

const placeOf = (s) => (s.drops ? mark("drop", "dropped") : mark(s.place === "hardware" ? "hardware" : "software", s.place));
const because = (o) => [o.reason, o.detail].filter(Boolean).join(" ");

/** streamTable has a row a stream. */
function streamTable(list) {
  return table("streams", ["from", "to", "protocol", "place", "because", "decided by", { number: "packets/s" }, { number: "packets" }], list.map((s) => [
    s.from ? object(s.from) : "any", h("span", {}, s.to ? object(s.to) : "any", s.via && [" by ", object(s.via)]), [s.protocol ?? "any", s.port].filter(Boolean).join(":"), placeOf(s), because(s),
    (s.decidedBy ?? []).join(", "), { number: perSecond(s.packetsPerSecond) }, { number: String(s.packets) }]));
}

/** advice says of each stream outside hardware why, and what has to change, in this order. */
function advice(list) {
  return (list ?? []).map((a) => h("section", { "data-testid": "advice", "aria-label": `advice for ${a.from ?? "any"} to ${a.to ?? "any"}` },
    h("h2", {}, `${a.from ?? "any"} to ${a.to ?? "any"} ${[a.protocol ?? "any", a.port].filter(Boolean).join(":")}`), h("h3", {}, "Why"),
    h("ol", {}, a.obstacles.map((o) => h("li", {}, mark("software", because(o)), o.objects?.length ? ` ${o.objects.join(", ")}` : "", ": ", o.meaning))),
    h("h3", {}, "To change"), h("ol", {}, a.obstacles.map((o, i) => h("li", {}, o.action, i < a.obstacles.length - 1 ? `: then ${i + 2} is left` : ": then hardware, unless the NIC's driver refuses it"))),
    h("p", {}, "The stream's flows were classified without each of these.")));
}

const end = (e, address, port) => h("span", {}, e?.pod ? object(`pod/${e.namespace}/${e.pod}`) : "", e?.pod && address ? " " : "", address ?? "any", port ? ":" + port : "");

/** flowTable has the busiest flows of a pod or a node. */
function flowTable(list) {
  return [h("p", {}, `${list.flows?.length ?? 0} of ${list.matched} flows of the datapath of `, object("node/" + list.node), ", the busiest first"),
    table("flows", ["from", "to", "protocol", "place", "because", "decided by", { number: "packets/s" }, { number: "packets" }], (list.flows ?? []).map((f) => [
      end(f.from, f.source, f.sourcePort), end(f.to?.[0], f.target, f.targetPort), f.protocol ?? "any",
      f.drops ? mark("drop", "dropped") : mark(f.place === "hardware" ? "hardware" : "software", f.place), [f.reason, f.detail].filter(Boolean).join(" "),
      (f.decidedBy ?? []).join(", "), { number: f.packetsPerSecond?.toFixed(0) ?? "" }, { number: String(f.packets) }]))];
}

export function flows(v, q) {
  const a = v.answer;
  return [h("h1", {}, "Flows"), askFlows(q), a ? [h("p", {}, `${a.streams.length} of ${a.matched} streams that the filter chooses, of ${a.all} of the namespace`),
    a.streams.length ? streamTable(a.streams) : h("p", {}, "No stream now: flows of the datapath end ten seconds after their last packet.")] : flowTable(v.flows)];
}

const filters = { protocol: "tcp", port: "5432", verdict: ["forwarded", "dropped"], place: ["hardware", "partial", "tc", "ovs"], reason: "action", policy: "NAME" };

/** askFlows is the form of flows, with the filters of kubectl offload flows. */
export function askFlows(q) {
  const of = q.get("namespace") ? (q.get("pod") ? `pod/${q.get("namespace")}/${q.get("pod")}` : "ns/" + q.get("namespace")) : q.get("pod") ? "pod/" + q.get("pod") : q.get("node") ? "node/" + q.get("node") : "";
  const field = ([name, words]) => h("label", {}, name, Array.isArray(words)
    ? h("select", { name }, h("option", { value: "" }, "any"), words.map((word) => h("option", { value: word, selected: q.get(name) === word }, word)))
    : h("input", { name, placeholder: words, value: q.get(name) ?? "", class: "short", spellcheck: "false", autocomplete: "off" }));
  const input = h("input", { name: "of", placeholder: "ns/NAME, pod/NAMESPACE/NAME or node/NAME", required: true, value: of, pattern: "(pod\\/[^\\/]+|node|ns)\\/[^\\/]+", spellcheck: "false", autocomplete: "off", oninput: () => input.setCustomValidity("") });
  return h("form", { class: "ask", onsubmit: (e) => {
    e.preventDefault();
    const data = new FormData(e.target), [kind, ...name] = data.get("of").trim().split("/");
    const chosen = Object.keys(filters).map((key) => [key, data.get(key).trim()]).filter(([, value]) => value);
    if (kind === "node" && chosen.length) {
      input.setCustomValidity("filters are for ns/NAME and pod/NAMESPACE/NAME");
      input.reportValidity();
      return;
    }
    const whose = kind === "ns" ? { namespace: name[0] } : chosen.length ? { namespace: name[0], pod: name[1] } : { [kind]: name.join("/") };
    location.hash = "#/flows?" + new URLSearchParams([...Object.entries(whose), ...chosen]);
  } }, h("label", {}, "of", input), Object.entries(filters).map(field), h("button", {}, "show"));
}

/** hour draws sums of packets a second: hardware below, software on it. */
function hour(sums) {
  const top = Math.max(1, ...sums.map((p) => p.hardware + p.software)), step = 900 / 119;
  const area = (low, high) => "M" + sums.map((p, i) => `${i * step} ${120 - (high(p) / top) * 110}`).join("L") + "L" + sums.map((p, i) => `${i * step} ${120 - (low(p) / top) * 110}`).reverse().join("L") + "Z";
  const last = sums[sums.length - 1];
  const words = `last: ${last.hardware.toFixed(0)} packets/s in hardware, ${last.software.toFixed(0)} in software; highest sum ${top.toFixed(0)}`;
  return [h("div", { class: "scroll" }, s("svg", { class: "scene", width: 900, height: 124, role: "img", "aria-label": words },
    s("path", { class: "area hardware", d: area(() => 0, (p) => p.hardware) }), s("path", { class: "area software", d: area((p) => p.hardware, (p) => p.hardware + p.software) }))), h("p", {}, words)];
}

export function traffic(v) {
  const t = v.traffic;
  return [h("h1", {}, "Traffic"), h("p", {}, `${t.agents} agents answer`, t.failed?.length && [", ", mark("degraded", `${t.failed.length} do not`)]),
    t.sums?.length && [h("h2", {}, "The last hour"), hour(t.sums)], h("h2", {}, "Pods with the most packets outside hardware"),
    table("pods", ["pod", "node", "in hardware", { number: "packets/s outside" }, "because"], (t.pods ?? []).map((p) => [object("pod/" + p.pod), object("node/" + p.node),
      bar(p.hardware), { number: p.outside.toFixed(0) }, [p.reason, p.detail].filter(Boolean).join(" ")])),
    t.failed?.length && [h("h2", {}, "No answer from"), h("ul", {}, t.failed.slice(0, 20).map((f) => h("li", {}, f)))]];
}

export function worst(v) {
  const pods = v.answer.pods ?? [];
  if (!pods.length) return [h("h1", {}, "Pods outside hardware"), h("p", {}, mark("good", "no pod with a VF has traffic outside hardware"))];
  return [h("h1", {}, "Pods outside hardware"), table("pods", ["pod", "node", "in hardware", "because", "detail"], pods.map((p) => [
    object("pod/" + p.pod), object("node/" + p.node), bar(p.packets.hardware), p.outside?.[0]?.reason, p.outside?.[0]?.detail]))];
}

/** ask is the form of a path. */
export function ask(q) {
  const field = (name, label, placeholder) => h("label", {}, label, h("input", { name, placeholder, required: true, value: q.get(name) ?? "", spellcheck: "false", autocomplete: "off" }));
  return h("form", { class: "ask", onsubmit: (e) => {
    e.preventDefault();
    const data = new FormData(e.target);
    location.hash = "#/path?" + new URLSearchParams([...data].map(([k, value]) => [k, value.trim()]));
  } }, field("from", "from", "pod/NAMESPACE/NAME or node/NAME"), field("to", "to", "svc/NAMESPACE/NAME:PORT/tcp"), h("button", {}, "trace"));
}

/** owner is an object that decides, with the command that prints it. */
function owner(name) {
  const [kind, ...rest] = name.split("/"), short = rest[rest.length - 1];
  const command = `kubectl get ${kind.toLowerCase()}/${short}${rest.length === 2 ? " -n " + rest[0] : ""} -o yaml`;
  return rest.length && rest.length < 3 ? h("span", {}, name, " ", copy("copy YAML command", () => command)) : name;
}

/** ruleRow is a flow's rule of TC as a row, if it is known or should be. */
function ruleRow(leg, part, flow) {
  const tc = part.tc, row = (what, taken) => [h("span", { class: "share" }, leg.back ? "back" : "there"), object("node/" + leg.node), "rule of TC", what, "", flow(), taken, "", { number: "" }];
  if (!tc) return [];
  if (tc.problem) return [row("not known: " + tc.problem, "")];
  const words = [tc.device, `chain ${tc.chain ?? 0}`, `pref ${tc.priority ?? 0}`, `handle 0x${(tc.handle ?? 0).toString(16)}`].filter(Boolean).join(" ");
  return [row(`${words}: ${tc.hardwarePackets} packets in hardware`, tc.inHardware ? mark("hardware", "in_hw") : mark("software", "not_in_hw"))];
}

/** legRows has a row a decision, or one for a flow without any, and one for its rule of TC. */
function legRows(legs) {
  return legs.flatMap((leg) => (leg.parts ?? []).flatMap((part) => {
    const flow = () => h("a", { class: "share", href: "#/flows?node=" + encodeURIComponent(leg.node), title: part.id }, part.id.slice(0, 8));
    const steps = part.steps?.length ? part.steps : [{ stage: "", what: part.problem || "rules of the network" }];
    return steps.map((st) => [h("span", { class: "share" }, leg.back ? "back" : "there"), object("node/" + leg.node), st.stage, st.what, (st.objects ?? []).map(owner), flow(), mark(part.place === "hardware" ? "hardware" : "software", part.place),
      because(part), { number: String(part.packets) }]).concat(ruleRow(leg, part, flow));
  }));
}

export function path(v, q) {
  const a = v.answer;
  if (a.legs) {
    const seen = a.verdict === "allowed" ? "good" : a.verdict.startsWith("sent") ? "degraded" : "drop";
    return [h("h1", {}, "Path"), ask(q), h("p", {}, `${a.from} to ${a.to} ${[a.protocol, a.port].filter(Boolean).join(":")}: `, mark(seen, a.verdict)),
      drawing(v.scene, "the way of the packets", { hardware: "in hardware", software: "in software (TC, Open vSwitch)", drop: "dropped", unknown: "not known" }),
      h("h2", {}, "Stations"), table("stations", ["", "node", "stage", "what", "object", "flow", "place", "because", { number: "packets" }], legRows(a.legs)),
      h("p", {}, `These flows forward the packets now. ${a.namedFlows} of ${a.flows} are named. No packet was sent.`)];
  }
  const good = a.verdict === "delivered" || a.verdict === "leaves";
  return [h("h1", {}, "Path"), ask(q), h("p", {}, `${a.from} to ${a.to} over ${a.protocol}: `, mark(good ? "good" : "drop", a.verdict)),
    h("p", { "data-testid": "computed" }, `${v.note} This path is computed from OVN's databases: no packet was sent.`), drawing(v.scene, "stations of the path", { hardware: "in hardware", software: "in software (TC, Open vSwitch)", unknown: "not known" }),
    h("h2", {}, "Stations"), table("stations", ["", "where", "what", "object"], (a.steps ?? []).map((st, i) => [String(i + 1), st.where, st.what, st.object && owner(st.object)]))];
}

/** askNamespaces is the form of views of namespaces. */
export function askNamespaces(view, q) {
  return h("form", { class: "ask", onsubmit: (e) => {
    e.preventDefault();
    const names = new FormData(e.target).get("namespaces").split(/[\s,]+/).filter(Boolean);
    location.hash = `#/${view}?namespaces=` + names.map(encodeURIComponent).join(",");
  } }, h("label", {}, "namespaces", h("input", { name: "namespaces", placeholder: "shop, bank", required: true, value: (q.get("namespaces") ?? "").replaceAll(",", ", "), spellcheck: "false", autocomplete: "off" })), h("button", {}, "show"));
}

const perSecond = (n) => (n === undefined ? "" : n.toFixed(0));
const linked = (name) => (name.startsWith("pod/") ? object(name) : name);

export function map(v, q) {
  const m = v.answer, edges = m.edges ?? [];
  return [h("h1", {}, "Map"), askNamespaces("map", q), m.omitted && h("p", {}, `${m.omitted} workloads and services with the fewest packets are not drawn.`),
    m.omittedEdges && h("p", {}, `${m.omittedEdges} lines with the fewest packets are not drawn. The table has them.`),
    v.scene.boxes?.length ? drawing(v.scene, "traffic of " + m.namespaces.join(", "), { hardware: "in hardware", software: "in software", drop: "dropped, with the policy" }) : h("p", {}, "These namespaces have no pods and no services."),
    h("h2", {}, "Traffic between them"), edges.length ? table("edges", ["from", "to", { number: "packets/s" }, { number: "packets" }, "in hardware", "outside because", { number: "dropped" }, "dropped by"], edges.map((e) => [
      linked(e.from), linked(e.to), { number: perSecond(e.packetsPerSecond) }, { number: String(e.packets) }, e.hardware === undefined ? "" : bar(e.hardware), e.reason ?? "",
      { number: e.dropped ? String(e.dropped) : "" }, e.dropped ? mark("drop", (e.by ?? []).join(", ") || "not known") : ""])) : h("p", {}, "No packets now: flows of the datapath end ten seconds after their last packet."),
    h("p", {}, "The number of packets is that of the flows that live. It is in both directions.")];
}

export function policies(v, q) {
  const a = v.answer;
  return [h("h1", {}, "Policies"), askNamespaces("policies", q),
    !a.named && h("p", {}, mark("degraded", "not known"), " which policies decide: no flow has the names of objects. Either there are no packets now, or OVN's databases could not be read."),
    a.policies.length ? table("policies", ["policy", "types", { number: "pods" }, { number: "streams" }, { number: "packets" }, { number: "dropped" }, "in hardware", "", "in a terminal"], a.policies.map((p) => {
      const known = (n) => ({ number: a.named ? String(n) : "?" });
      return [p.policy, (p.types ?? []).join(", "), { number: p.pods === undefined ? "" : String(p.pods) }, known(p.streams), known(p.packets), known(p.dropped), p.hardware === undefined ? "" : bar(p.hardware),
        p.nothing ? mark("software", "matched nothing") : p.dropped ? mark("drop", "drops") : "", h("code", {}, p.command ?? "")];
    })) : h("p", {}, "These namespaces have no policies."),
    h("p", {}, "A policy that matched nothing decided about no packet of the flows that live now. Flows of the datapath end ten seconds after their last packet.")];
}
