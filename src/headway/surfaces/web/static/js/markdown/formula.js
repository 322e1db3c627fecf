// A formula as MathML. The library is loaded with the first one.
import { Component, html } from "../core/lib.js";

const OPTIONS = { throwOnError: true, trust: false, maxExpand: 500, maxSize: [20, 500] };
const DEPTH_LIMIT = 60; // elements in each other
let temml = null;
let loading = null;

const load = () => {
  loading ??= import("../../vendor/temml.js").then((module) => {
    temml = module.default;
  });
  return loading;
};

const isDeep = (element, limit = DEPTH_LIMIT) => limit === 0 || [...element.children].some((child) => isDeep(child, limit - 1));

/** Draw the formula into an element. If it cannot be read, its source stays there. */
function draw(element, { text, isDisplay }) {
  const drawing = document.createElement("span");
  let isReadable = true;
  try {
    temml.render(text, drawing, { ...OPTIONS, displayMode: isDisplay, macros: {} });
    isReadable = !isDeep(drawing);
  } catch {
    isReadable = false; // it is no formula, or a limit was reached
  }
  element.classList.toggle("source", !isReadable);
  if (!isReadable) {
    element.textContent = text;
    return;
  }
  for (const named of drawing.querySelectorAll("[id], [href]")) {
    named.removeAttribute("id"); // the text must not choose names in the page
    named.removeAttribute("href");
  }
  element.replaceChildren(...drawing.childNodes);
}

export class Formula extends Component {
  keepElement = (element) => {
    this.element = element;
  };
  shouldComponentUpdate(next) {
    return next.text !== this.props.text;
  }
  componentDidMount() {
    this.show();
  }
  componentDidUpdate() {
    this.show();
  }
  async show() {
    const { text } = this.props;
    if (!temml) {
      this.element.textContent = text;
      try {
        await load();
      } catch {
        return; // the source stays
      }
    }
    if (this.element && this.props.text === text) draw(this.element, this.props);
  }
  render({ isDisplay }) {
    return isDisplay
      ? html`<span ref=${this.keepElement} class="math display" tabindex="0" role="group" aria-label="Formula" dir="ltr"></span>`
      : html`<span ref=${this.keepElement} class="math" dir="ltr"></span>`;
  }
}
