// Where the keyboard's focus goes when something that had it disappears.
import { useEffect, useRef } from "./lib.js";

/** A ref for the button that opens a form. When the form is closed, the button gets the focus back. */
export function useFocusBack(isOpen) {
  const button = useRef();
  const wasOpen = useRef(false);
  useEffect(() => {
    if (wasOpen.current && !isOpen) button.current?.focus();
    wasOpen.current = isOpen;
  }, [isOpen]);
  return button;
}
