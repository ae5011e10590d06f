// The explanation of a device or a pool, in a dialog.

import { ago, byId, holder, make } from "/page/dom.js";

/** Show the agent's explanation of a device or pool. */
export async function explain(subject) {
  const dialog = byId("details");
  byId("details-title").textContent = subject;
  const body = dialog.querySelector(".body");
  body.replaceChildren(make("p", { is: "faint" }, "loading …"));
  if (!dialog.open) dialog.showModal();
  try {
    const answer = await fetch(`/explain?subject=${encodeURIComponent(subject)}`);
    const explanation = await answer.json();
    body.replaceChildren(...(explanation.device ? device(explanation.device) : explanation.pool ? pool(explanation.pool) : unknown(explanation)));
  } catch (error) {
    body.replaceChildren(make("p", { is: "bad" }, `The agent did not answer: ${error.message}`));
  }
}

function device(explanation) {
  const facts = (explanation.facts ?? []).map(({ name, value }) => [name, value]);
  const its = explanation.device;
  if (explanation.inUse) facts.push(["in use by the host", explanation.inUse]);
  if (its.health) {
    const since = its.since ? ` since ${new Date(its.since * 1000).toLocaleString()} (${ago(its.since)} ago)` : "";
    const cause = its.cause ? `, ${its.cause}: ${explanation.healthDetail ?? ""}` : "";
    facts.push(["health", `${its.health}${since}${cause}`]);
  }
  if (its.holder) facts.push(["pod", holder(its)]);
  return [make("p", { is: its.health === "Unhealthy" ? "bad" : "" }, explanation.summary), list(facts), ...(explanation.pools ?? []).flatMap(verdict)];
}

function verdict(pool) {
  const several = (pool.objects ?? []).length > 1;
  const rows = (pool.objects ?? []).flatMap((one) => (one.verdicts ?? []).map((v) => [
    `${several ? `[${one.selectorObject}] ` : ""}${v.key}`,
    v.wanted,
    v.actual,
    make("span", { is: v.passed ? "good" : "bad" }, v.passed ? "passed" : "refused"),
  ]));
  const title = make("h3", {}, pool.resource, ": ", make("span", { is: pool.chosen ? "good" : "" }, pool.outcome));
  return rows.length ? [title, table(["selector", "wanted", "found", "verdict"], rows)] : [title];
}

function pool(explanation) {
  const its = explanation.pool;
  const lines = [
    ...(its.whyEmpty ?? []),
    ...(its.notes ?? []),
    ...(explanation.overlaps ?? []).map((o) => `devices of ${o.winner} that ${o.loser} also matches: ${o.devices}`),
  ].map((line) => make("p", { is: "note warn" }, line));
  const funnel = (its.funnel ?? []).map((step) => [
    String(step.remaining),
    `${step.selectorObject ? `[${step.selectorObject}] ` : ""}${step.step}`,
    step.wanted ?? "",
  ]);
  const members = (explanation.members ?? []).map((m) => [m.id, m.cause ? `${m.health}: ${m.cause}` : m.health, holder(m) || (m.givenLast && "none (given last)")]);
  return [
    make("p", {}, explanation.summary),
    ...lines,
    table(["functions left", "after", "wanted"], funnel),
    ...(members.length ? [table(["device", "health", "pod"], members)] : []),
  ];
}

function unknown(explanation) {
  const near = (explanation.near ?? []).join(", ");
  return [make("p", {}, explanation.note || `Unknown on this node.${near ? ` Similar: ${near}` : ""}`)];
}

const list = (facts) => make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

function table(head, rows) {
  return make("table", {},
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell ?? ""))))));
}
