// Pools as cards: their devices, their state at kubelet, and their funnels.

import { byId, count, hue, make } from "/page/dom.js";

/** Draw all pools; calls `choose` with the resource whose devices are to be highlighted. */
export function drawPools(status, chosen, choose, explain) {
  const cards = (status.pools ?? []).map((pool, place) => card(pool, place, chosen, choose, explain));
  if (!cards.length) cards.push(make("p", { is: "faint" }, "No pools are configured."));
  byId("pools").querySelector(".cards").replaceChildren(...cards);
}

function card(pool, place, chosen, choose, explain) {
  const is = `card pool${pool.resource === chosen ? " chosen" : ""}`;
  const element = make("article", { is, "data-resource": pool.resource });
  element.style.setProperty("--hue", hue(place));
  const healthy = pool.devices && pool.healthy === pool.devices ? "good" : pool.devices ? "bad" : "faint";
  element.append(
    make("div", { is: "head" },
      make("h3", {}, make("button", {
        type: "button",
        "aria-pressed": String(pool.resource === chosen),
        title: "Show its devices on the host",
        on: { click: () => choose(pool.resource === chosen ? "" : pool.resource) },
      }, pool.resource)),
      make("span", { is: `big ${healthy}`, title: "healthy / all devices" }, `${pool.healthy}/${pool.devices}`)),
    make("div", { is: "faint" },
      `${pool.deviceType}, ${pool.held} allocated to pods, `,
      kubelet(pool.server),
      " ",
      make("button", { type: "button", on: { click: () => explain(pool.resource) } }, "explain")),
    ...(pool.causes ?? []).map(({ cause, devices }) =>
      make("p", { is: "note bad" }, `${count(devices, "device")} unhealthy: ${cause}`)),
    ...(pool.whyEmpty ?? []).map((why) => make("p", { is: "note warn" }, why)),
    ...(pool.notes ?? []).map((note) => make("p", { is: "note warn" }, note)),
    funnel(pool),
  );
  return element;
}

function kubelet(server) {
  if (!server) return make("span", {}, "not served");
  if (server.streamLive) return make("span", { is: "good" }, `ListAndWatch stream open (${server.registeredBy})`);
  const why = server.lastError ? `: ${server.lastError}` : "";
  const words = server.registeredBy ? "registered, no ListAndWatch stream" : "not registered";
  return make("span", { is: "bad" }, words + why);
}

function funnel(pool) {
  const steps = pool.funnel ?? [];
  const most = Math.max(1, ...steps.map((step) => step.remaining));
  const several = steps.some((step) => step.selectorObject > 1);
  const list = make("ol", { is: "funnel", "aria-label": "Functions left after each step" });
  for (const step of steps) {
    const bar = make("span", { is: "bar" });
    bar.style.width = `${(100 * step.remaining) / most}%`;
    const object = several && step.selectorObject ? `[${step.selectorObject}] ` : "";
    list.append(make("li", {},
      make("span", { is: `count${step.remaining ? "" : " bad"}` }, String(step.remaining)),
      make("span", { is: "what" }, bar, make("span", { is: "words" }, `${object}${step.step} ${step.wanted ?? ""}`))));
  }
  return list;
}
