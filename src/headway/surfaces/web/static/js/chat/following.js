// Following the end of the log, until the user scrolls up. Only what the user does ends it: never a change of the layout.
import { useEffect, useRef, useState } from "../core/lib.js";

const NEAR_END_PX = 24;
const KEYS_UP = new Set(["ArrowUp", "PageUp", "Home"]);

const getDistance = (box) => box.scrollHeight - box.scrollTop - box.clientHeight;
const canScroll = (box) => box.scrollHeight > box.clientHeight;

/** Whether a part inside the box, such as a long result, will scroll up instead of the box. */
function scrollsInside(target, box) {
  for (let element = target; element && element !== box; element = element.parentElement) {
    if (element.scrollTop > 0) return true;
  }
  return false;
}

/** Calls `onUp(target)` before the user scrolls the box up, with the wheel, a finger or a key; and `onEnd` for the key End. */
function watchIntent(box, onUp, onEnd) {
  let fingerY = 0;
  const onWheel = (event) => event.deltaY < 0 && !event.ctrlKey && onUp(event.target);
  const onTouchStart = ({ touches }) => (fingerY = touches[0].clientY);
  const onTouchMove = ({ touches, target }) => {
    if (touches[0].clientY > fingerY) onUp(target);
    fingerY = touches[0].clientY;
  };
  const onKeyDown = (event) => {
    if (event.target.closest("input, textarea, select")) return;
    if (KEYS_UP.has(event.key) || (event.key === " " && event.shiftKey)) onUp(event.target);
    else if (event.key === "End") onEnd();
  };
  const listeners = { wheel: onWheel, touchstart: onTouchStart, touchmove: onTouchMove, keydown: onKeyDown };
  for (const [kind, listener] of Object.entries(listeners)) box.addEventListener(kind, listener, { passive: true });
}

/** Keep `box` at its end while `list`, its content, grows. Returns a function that goes there, and one that stops all this. */
function createFollower(box, list, onChange) {
  let isFollowing = true;
  let seen = {}; // the position and the sizes as of the last scroll or resize
  const look = () => {
    seen = { top: box.scrollTop, height: box.scrollHeight, frame: box.clientHeight };
  };
  const follow = (following) => {
    if (isFollowing !== following) onChange(following);
    isFollowing = following;
  };
  const goToEnd = () => {
    if (isFollowing) box.scrollTop = box.scrollHeight;
    look();
  };
  const onUp = (target) => canScroll(box) && box.scrollTop > 0 && !scrollsInside(target, box) && follow(false);
  watchIntent(box, onUp, () => follow(true));
  box.addEventListener(
    "scroll",
    () => {
      const { scrollTop: top, scrollHeight: height, clientHeight: frame } = box;
      const isResized = height !== seen.height || frame !== seen.frame; // then the browser may have moved it
      if (top < seen.top && !isResized && getDistance(box) > 1)
        follow(false); // the scroll bar, or the focus moved up
      else if (top > seen.top && getDistance(box) <= NEAR_END_PX) follow(true);
      look();
    },
    { passive: true },
  );
  const observer = new ResizeObserver(goToEnd);
  observer.observe(box);
  observer.observe(list);
  goToEnd();
  const jump = () => {
    follow(true);
    goToEnd();
  };
  return { jump, stop: () => observer.disconnect() };
}

/** Returns refs for the scrolling box and its content, whether the end is followed, and a function that goes back to it. */
export function useFollowing() {
  const box = useRef();
  const list = useRef();
  const follower = useRef();
  const [isFollowing, setIsFollowing] = useState(true);
  useEffect(() => {
    follower.current = createFollower(box.current, list.current, setIsFollowing);
    return follower.current.stop;
  }, []);
  return { box, list, isFollowing, jump: () => follower.current.jump() };
}
