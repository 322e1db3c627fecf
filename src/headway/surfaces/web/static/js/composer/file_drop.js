// Files that are dragged into the window can be dropped anywhere in it.
import { html, useEffect, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { LIMITS } from "./uploads.js";

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

/** The dropped files, without folders, which have no content. */
const listFiles = ({ items }) =>
  [...items].filter((item) => item.kind === "file" && !item.webkitGetAsEntry?.()?.isDirectory).map((item) => item.getAsFile());

/** Whether files are being dragged over the window. */
function useFileDrop(onDrop) {
  const [isOver, setIsOver] = useState(false);
  useEffect(() => {
    const onDragOver = (event) => {
      if (!hasFiles(event) || document.querySelector("dialog:modal")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      setIsOver(true);
    };
    const onDragLeave = (event) => {
      if (!event.relatedTarget) setIsOver(false); // it has left the window
    };
    const onDropped = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault(); // the browser would leave the page and show the file
      setIsOver(false);
      onDrop(listFiles(event.dataTransfer), event.dataTransfer.items.length);
    };
    const listeners = { dragover: onDragOver, dragleave: onDragLeave, drop: onDropped };
    for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener);
    return () => {
      for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener);
    };
  }, []);
  return isOver;
}

/** Covers the chat while files are dragged. `onDrop(files, count)`: `count` includes folders. */
export const DropTarget = ({ onDrop }) =>
  useFileDrop(onDrop) &&
  html`<div class="drop-target"><div><${Icon} name="clip" /><strong>Drop to attach</strong><span>${LIMITS}</span></div></div>`;
