// The only module that names the libraries of the page's elements.
import htm from "../../vendor/htm.js";
import { Component, Fragment, h, render } from "../../vendor/preact.js";

// An effect runs after the next frame, a layout effect at once: what moves the focus may not come after the next key.
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
export { batch, computed, effect, signal } from "../../vendor/signals.js";
export const html = htm.bind(h);
export { Component, Fragment, render };

/** The user's choices, kept in this browser. Where storage is blocked, they last until the page is closed. */
export const preferences = {
  get(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  /** The names that begin with a prefix. */
  list(prefix) {
    try {
      return Object.keys(localStorage).filter((name) => name.startsWith(prefix));
    } catch {
      return [];
    }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(name);
      else localStorage.setItem(name, value);
    } catch {
      /* storage is blocked */
    }
  },
};

/** A component that renders again only when one of its properties is another object. */
export class PureComponent extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }
}
