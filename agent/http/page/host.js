// The host: PFs with their links, and a grid of their functions. A cell is changed only if its device
// has changed, so that 4096 of them stay fast.

import { byId, holder, hue, make } from "/page/dom.js";

const cells = new Map(); // device id -> its cell
const cards = new Map(); // PF address, or "" -> its card
let known = new Map(); // device id -> the device as drawn

/** Draw what changed; calls `explain` with the id of the selected device. */
export function drawHost(status, explain) {
  const devices = new Map((status.devices ?? []).map((device) => [device.id, device]));
  const pools = new Map((status.pools ?? []).map((pool, place) => [pool.resource, place]));
  const grids = new Map((status.pfs ?? []).map((pf) => [pf.address, []]));
  for (const device of devices.values()) {
    const owner = device.role !== "PF" && grids.has(device.pf) ? device.pf : device.role === "PF" ? null : "";
    if (owner === null) continue;
    if (!grids.has(owner)) grids.set(owner, []);
    grids.get(owner).push(device);
  }
  const pfs = new Map((status.pfs ?? []).map((pf) => [pf.address, pf]));
  const shown = [...grids].map(([address, functions]) =>
    drawCard(address, pfs.get(address), devices.get(address), functions, pools, explain));
  for (const address of [...cards.keys()].filter((key) => !grids.has(key))) cards.delete(address);
  for (const id of [...cells.keys()].filter((key) => !devices.has(key))) cells.delete(id);
  place(byId("host").querySelector(".pfs"), shown);
  known = devices;
}

/** Put children in place without touching those that are there already. */
function place(parent, children) {
  const same = parent.children.length === children.length && children.every((c, i) => parent.children[i] === c);
  if (!same) parent.replaceChildren(...children);
}

function drawCard(address, pf, device, functions, pools, explain) {
  let card = cards.get(address);
  if (!card) {
    const grid = make("div", { is: "grid", role: "group", on: { keydown: (event) => move(event, grid) } });
    card = { element: make("article", { is: "card pf" }), head: make("div", {}), grid };
    card.element.append(card.head, grid);
    cards.set(address, card);
  }
  card.head.replaceChildren(...head(pf, device, pools, explain));
  card.grid.setAttribute("aria-label", `Functions of ${pf?.name || address || "PFs that are not on this host"}`);
  place(card.grid, functions.map((d) => drawCell(d, pools, explain)));
  if (!card.grid.querySelector('[tabindex="0"]')) card.grid.firstElementChild?.setAttribute("tabindex", "0");
  return card.element;
}

function head(pf, device, pools, explain) {
  if (!pf) return [make("h3", {}, "Functions whose PF is not on this host")];
  const speed = pf.link === "up" && pf.speedMbps ? ` ${pf.speedMbps / 1000} Gbit/s` : "";
  const link = { up: "good", down: "bad", "admin down": "bad" }[pf.link] ?? "faint";
  const facts = [
    pf.title || `${pf.vendor}:${pf.device}`,
    pf.driver || "no driver",
    pf.numaNode === undefined ? null : `NUMA ${pf.numaNode}`,
    pf.totalVfs ? `${pf.numVfs} of ${pf.totalVfs} VFs` : null,
    device?.pool ? `in ${device.pool}` : null,
    pf.inUse ? `in use by the host: ${pf.inUse}` : null,
  ];
  const button = make("button", { type: "button", on: { click: () => explain(pf.address) } }, "explain");
  return [
    make("div", { is: "head" },
      make("h3", {}, pf.name ? `${pf.name} ` : "", make("span", { is: "faint" }, pf.address)),
      make("span", { is: link }, pf.link === "no netdev" ? "" : `link ${pf.link}${speed}`)),
    make("div", { is: "facts" }, `${facts.filter(Boolean).join(", ")} `, button),
  ];
}

function drawCell(device, pools, explain) {
  let cell = cells.get(device.id);
  if (!cell) {
    const open = () => explain(device.id);
    cell = make("button", { type: "button", tabindex: "-1", "data-id": device.id, on: { click: open } });
    cells.set(device.id, cell);
  }
  const before = known.get(device.id);
  if (before && JSON.stringify(before) === JSON.stringify(device) && cell.dataset.place === String(pools.get(device.pool))) {
    return cell;
  }
  const dimmed = cell.classList.contains("dim") ? " dim" : "";
  cell.className = `cell ${look(device)}${dimmed}`;
  cell.dataset.place = String(pools.get(device.pool));
  if (device.pool) cell.style.setProperty("--hue", hue(pools.get(device.pool) ?? 0));
  cell.title = words(device);
  cell.setAttribute("aria-label", cell.title);
  return cell;
}

function look(device) {
  if (!device.pool) return device.refusal === "in-use" ? "used" : "none";
  return `pool${device.holder ? " held" : ""}${device.health === "Unhealthy" ? " bad" : ""}`;
}

/** A device in one line, for its title, for screen readers, and for finding it; it stays as it is while the device does. */
export function words(device) {
  const index = device.index === undefined ? "" : ` #${device.index}`;
  const health = device.health === "Unhealthy" ? `Unhealthy: ${device.cause}` : device.health;
  const since = device.health === "Unhealthy" && device.since ? `since ${new Date(device.since * 1000).toLocaleTimeString()}` : "";
  const where = device.pool || device.refusal || "in no pool";
  const facts = [`${device.id}${index}`, device.role, device.driver, where, health, since, holder(device), device.givenLast && "given last"];
  return facts.filter(Boolean).join(", ");
}

/** Let the cells that fit stand out; none given = all are equal again. */
export function mark(fits) {
  for (const [id, cell] of cells) cell.classList.toggle("dim", fits !== null && !fits(known.get(id)));
}

/** Arrow keys in a grid: left and right in order, up and down by place. */
function move(event, grid) {
  const all = [...grid.children];
  const at = all.indexOf(event.target);
  const to = {
    ArrowRight: all[at + 1],
    ArrowLeft: all[at - 1],
    ArrowDown: vertical(all, at, 1),
    ArrowUp: vertical(all, at, -1),
    Home: all[0],
    End: all.at(-1),
  }[event.key];
  if (at < 0 || !to) return;
  event.preventDefault();
  all[at].tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

function vertical(all, at, way) {
  const { offsetTop, offsetLeft } = all[at];
  const rest = way > 0 ? all.slice(at + 1) : all.slice(0, at).reverse();
  return rest.find((cell) => cell.offsetTop !== offsetTop && Math.abs(cell.offsetLeft - offsetLeft) < 4);
}
