// Elements: made, and changed only where something changed, so that the rest keeps focus and selection.
// Text that came with spans only ever becomes textContent, and what is not to be seen in it an escape.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SVG = "http://www.w3.org/2000/svg";

export const at = (id) => document.getElementById(id);

// Else it could turn the direction of writing round, or hide; `top`, logs and reports write the same.
const printable = (text) =>
  text.replace(UNSEEN, (one) => {
    const code = one.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
  });

export function make(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  const present = children.filter((child) => child !== null && child !== undefined);
  node.append(...present.map((child) => (typeof child === "string" ? printable(child) : child)));
  return node;
}

export function draw(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function say(node, text) {
  const shown = printable(text);
  if (node.textContent !== shown) node.textContent = shown;
}

export function mark(node, name, value) {
  if (value === undefined || value === "") node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// Give an element these children; those of the same kind as before stay the elements that they were.
export function fill(node, children) {
  follow(node, [...make(node.tagName, {}, ...children).childNodes]);
}

function follow(node, wanted) {
  const present = [...node.childNodes];
  const isAlike = present.length === wanted.length && present.every((child, index) => child.nodeName === wanted[index].nodeName);
  if (!isAlike) {
    node.replaceChildren(...wanted);
    return;
  }
  present.forEach((child, index) => {
    if (child.nodeType === Node.TEXT_NODE) say(child, wanted[index].textContent);
    else become(child, wanted[index]);
  });
}

function become(node, wanted) {
  for (const { name } of [...node.attributes]) if (!wanted.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of wanted.attributes) mark(node, name, value);
  follow(node, [...wanted.childNodes]);
}

export function announce(text) {
  say(at("announcement"), text);
}

export function tableOf(heads, lines) {
  const head = heads.map((text) => make("th", { scope: "col" }, text));
  const rows = lines.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((text) => make("td", {}, text))));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}
