// Keeps the page up to date: an event triggers a request for the status.

import { ago, byId, count, make } from "/page/dom.js";
import { explain } from "/page/details.js";
import { followEvents } from "/page/events.js";
import { drawHost, mark, words } from "/page/host.js";
import { drawPools } from "/page/pools.js";

const PAUSE_MS = 300; // least time between two requests, for any number of events
const SLOW_MS = 15000; // time between requests without events

let status = null;
let etag = "";
let chosen = "";
let timer = 0;
let asking = false;
let again = false;

async function refresh() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    const answer = await fetch("/status", { headers: etag ? { "If-None-Match": etag } : {}, cache: "no-store" });
    if (answer.ok) {
      etag = answer.headers.get("etag") ?? "";
      status = await answer.json();
      draw();
    }
  } catch {
    showReady("no answer", "bad");
  } finally {
    asking = false;
    soon(again ? PAUSE_MS : SLOW_MS);
  }
}

function soon(delay) {
  again = asking; // the pending answer may be older than the event
  clearTimeout(timer);
  timer = setTimeout(refresh, delay);
}

function draw() {
  byId("node").textContent = status.node ?? "node agent";
  showReady(status.ready ? "ready" : "not ready", status.ready ? "good" : "bad");
  byId("about").textContent = [
    `version ${status.version}`,
    `up ${ago(status.startedAt)}`,
    count((status.devices ?? []).length, "function"),
    status.config?.path ?? "",
  ].join(", ");
  byId("missing").replaceChildren(
    ...(status.missing ?? []).map((text) => make("li", {}, text)),
    ...(status.details ?? []).map((text) => make("li", { is: "warn" }, text)),
  );
  drawPools(status, chosen, choose, explain);
  drawHost(status, explain);
  filter();
}

function showReady(text, is) {
  const badge = byId("ready");
  if (badge.textContent !== text) badge.textContent = text;
  badge.className = is;
}

function choose(resource) {
  chosen = resource;
  drawPools(status, chosen, choose, explain);
  filter();
}

/** Dim devices that are not in the chosen pool or do not match the search. */
function filter() {
  const wanted = byId("find").value.trim().toLowerCase();
  if (!wanted && !chosen) {
    mark(null);
    return;
  }
  mark((device) => (!chosen || device.pool === chosen) && words(device).toLowerCase().includes(wanted));
}

function themes() {
  const all = ["auto", "light", "dark"];
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = `theme: ${theme}`;
  };
  let now = localStorage.getItem("theme") ?? "auto";
  show(now);
  byId("theme").addEventListener("click", () => {
    now = all[(all.indexOf(now) + 1) % all.length];
    localStorage.setItem("theme", now);
    show(now);
  });
}

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !typing && !byId("details").open) {
    event.preventDefault();
    byId("find").focus();
  } else if (event.key === "Escape" && typing) {
    event.target.value = "";
    filter();
    event.target.blur();
  }
});
byId("find").addEventListener("input", filter);
themes();
followEvents(
  () => soon(PAUSE_MS),
  (isLive) => {
    byId("live").textContent = isLive ? "live" : "reconnecting …";
    byId("live").className = isLive ? "good" : "bad";
    if (isLive) soon(0);
  },
);
refresh();
