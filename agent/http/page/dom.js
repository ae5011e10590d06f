// Creates elements. Texts are set as text nodes, so no name from the host can become markup.

export const byId = (id) => document.getElementById(id);

/** An element with a class, attributes and children; texts become text nodes. */
export function make(tag, { is = "", on = {}, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (is) element.className = is;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  for (const [event, listen] of Object.entries(on)) element.addEventListener(event, listen);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** "1 device", "2 devices". */
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** How long ago a moment (seconds since 1970) was. */
export function ago(since) {
  const seconds = Math.max(0, Math.round(Date.now() / 1000 - since));
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)}${unit}`;
  }
  return `${seconds}s`;
}

/** The hue of the pool at a place in the list: neighbours differ, and red is left to faults. */
export const hue = (place) => Math.round(25 + ((180 + place * 137.5) % 310));

/** Who holds a device, in words. */
export function holder(device) {
  if (!device.holder) return "";
  const { namespace, pod, container } = device.holder;
  return pod ? `${namespace}/${pod} (${container})` : "a pod that is being started";
}
