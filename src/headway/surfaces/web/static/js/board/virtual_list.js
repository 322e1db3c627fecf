// A list that scrolls on its own and renders only the rows that can be seen. All rows have the same height.
import { html, useEffect, useState } from "../core/lib.js";

const MARGIN = 6; // rows above and below what can be seen

/** The rows to render: the visible ones, and those that must stay because they have the focus or are dragged. */
function listIndexes({ first, last }, count, pinned) {
  const start = Math.max(0, first - MARGIN);
  const end = Math.min(count, last + MARGIN);
  const indexes = Array.from({ length: Math.max(0, end - start) }, (_, n) => start + n);
  for (const index of pinned) if (index >= 0 && index < count && (index < start || index >= end)) indexes.push(index);
  return indexes;
}

// Set as properties: the content security policy forbids style attributes.
const setHeight = (element, height) => element.style.setProperty("height", `${height}px`);
const setTop = (element, top) => element.style.setProperty("transform", `translateY(${top}px)`);

/** A ref that moves an element down from the top of its list. */
export const placeAt = (top) => (element) => element && setTop(element, top);

/**
 * `renderRow`: called with the index of a row and its distance from the top.
 * `onRange`: called with the number of rows that are needed, when it or `loaded`, the number of those that are there, has changed.
 * `list`: a ref that gets the element which scrolls.
 */
export function VirtualList({ count, loaded, rowHeight, pinned, renderRow, onRange, list, label, children }) {
  const [range, setRange] = useState({ first: 0, last: 0 });
  const measure = () => {
    if (!list.current) return; // the list is gone, and its observer not yet
    const { scrollTop, clientHeight } = list.current;
    const first = Math.floor(scrollTop / rowHeight);
    const last = Math.ceil((scrollTop + clientHeight) / rowHeight);
    setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
  };
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(list.current);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => onRange(range.last + MARGIN), [range.last, loaded]);
  const rows = listIndexes(range, count, pinned);
  return html`<div ref=${list} class="column-list" onScroll=${measure}>
    <ul aria-label=${label} ref=${(element) => element && setHeight(element, count * rowHeight)}>
      ${rows.map((index) => renderRow(index, index * rowHeight))}
    </ul>
    ${children}
  </div>`;
}
