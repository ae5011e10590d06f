// The event stream: what the agent logs, newest first.

import { byId, make } from "/page/dom.js";

const KEPT = 300;
const OWN = new Set(["number", "time", "level", "event"]);

/** Follow the events; calls `changed` for each event, and `live` when the connection changes. */
export function followEvents(changed, live) {
  const list = byId("events").querySelector("ol");
  const source = new EventSource("/events");
  source.onopen = () => live(true);
  source.onerror = () => live(false);
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    list.prepend(line(event));
    while (list.children.length > KEPT) list.lastElementChild.remove();
    changed(event);
  };
  byId("debug").addEventListener("change", (event) =>
    byId("events").classList.toggle("debug", event.target.checked));
}

function line(event) {
  const fields = Object.entries(event)
    .filter(([name, value]) => !OWN.has(name) && value !== null && value !== "")
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  const time = new Date(event.time * 1000).toLocaleTimeString([], { hour12: false });
  return make("li", { is: event.level, title: event.level }, `${time}  ${event.event}  ${fields.join("  ")}`);
}
