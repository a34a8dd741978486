// Elements, made of text alone: no string is ever taken for markup.

const SVG = "http://www.w3.org/2000/svg";

// el makes an element. Children are elements, or text; null is left out.
export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return e;
}

// icon is one of the symbols in index.html.
export function icon(name, className = "icon") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", "#i-" + name);
  svg.append(use);
  return svg;
}

// set changes an element's text where it is another.
export function set(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export const $ = (id) => document.getElementById(id);
