// Listeners: each is told, whatever the others do.
import { expect, it, vi } from "vitest";
import { createListeners } from "../../../lib/ovsdb-client/listeners.ts";

it("tells the others when one throws, and lets the fault be heard outside", () => {
  const later: (() => void)[] = [];
  vi.spyOn(globalThis, "queueMicrotask").mockImplementation((call) => void later.push(call));
  const told: string[] = [];
  const listeners = createListeners<[string]>();
  const forget = listeners.add((text) => {
    forget();
    throw new RangeError(text);
  });
  listeners.add((text) => told.push(text));
  listeners.tell("one");
  listeners.tell("two");
  expect(told).toEqual(["one", "two"]);
  expect(later).toHaveLength(1);
  expect(later[0]).toThrow(new RangeError("one"));
});

it("takes the same function twice, and back once", () => {
  const told: string[] = [];
  const listeners = createListeners<[string]>();
  const listener = (text: string): void => void told.push(text);
  const forget = listeners.add(listener);
  listeners.add(listener);
  listeners.tell("a");
  forget();
  forget();
  listeners.tell("b");
  expect(told).toEqual(["a", "a", "b"]);
});
