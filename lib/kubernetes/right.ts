// When the copy was last known to be right. In: what happens to lists and watches. Out: a time. Answers that are errors, and a watch
// that is cut in the middle of its next event each time, are contact and no more.
import type { Clock } from "./clock.ts";

/** A server that has something to tell at the beginning of a watch has begun to by then. */
const PENDING_MS = 5_000;

export interface Right {
  /** Of performance.now(); undefined before the first list. */
  readonly at: number | undefined;
  listed(): void;
  /**
   * One watch. `goesOn`: from where the copy is, so that being taken says that the copy is right. `onRight` is called when a watch
   * that counts has begun.
   */
  watching(goesOn: boolean, onRight: () => void): Watching;
}

export interface Watching {
  opened(): void;
  /** A byte came. */
  heard(): void;
  /** The copy is right at a newer version. */
  moved(): void;
  ended(): void;
}

export function createRight(clock: Clock): Right {
  let at: number | undefined;
  /** The last watch said something, and nothing that could be taken over: it being taken again tells nothing. */
  let stuck = false;
  return {
    get at() {
      return at;
    },
    listed: () => {
      at = clock.now();
      stuck = false;
    },
    watching: (goesOn, onRight) => {
      let [isOpen, wasHeard, hasMoved] = [false, false, false];
      let callOff = (): void => {};
      const isRight = (): void => {
        at = clock.now();
        stuck = false;
        onRight();
      };
      return {
        opened: () => {
          isOpen = true;
          // What it could not tell before it would tell at once.
          if (stuck) callOff = clock.after(PENDING_MS, () => wasHeard || isRight());
          else if (goesOn) isRight();
          else onRight();
        },
        heard: () => {
          wasHeard = isOpen;
        },
        moved: () => {
          hasMoved = true;
          if (stuck) isRight();
          else at = clock.now();
        },
        ended: () => {
          callOff();
          if (goesOn && isOpen) stuck = wasHeard && !hasMoved;
        },
      };
    },
  };
}
