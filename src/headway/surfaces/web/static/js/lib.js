// The one place that names the vendored libraries.

import htm from "../vendor/htm.js";
import { Component, Fragment, h, render } from "../vendor/preact.js";

export { useEffect, useId, useMemo, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal } from "../vendor/signals.js";
export const html = htm.bind(h);
export { Component, Fragment, render };

/** What this browser remembers of a preference. Storage can be forbidden: then nothing is remembered. */
export const remembered = {
  get(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(name);
      else localStorage.setItem(name, value);
    } catch {
      /* not remembered */
    }
  },
};

/** A component that is drawn again only when one of its properties is another object. */
export class Kept extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }
}
