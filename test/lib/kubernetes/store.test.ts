// The copy: what changed and what did not, and that a list that is not complete is none.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Item } from "../../../lib/kubernetes/events.ts";
import { createStore } from "../../../lib/kubernetes/store.ts";

const item = (key: string, uid: string, resourceVersion: string, value: unknown = uid): Item => ({
  key,
  version: { uid, resourceVersion },
  raw: { value },
});
const make = () => {
  const projected: unknown[] = [];
  const store = createStore<{ readonly value: unknown }>(({ value }) => {
    projected.push(value);
    if (value === "broken") throw new Error("broken");
    return value === "out" ? undefined : { value };
  });
  return { store, projected };
};

describe("a store", () => {
  it("tells each key once, whatever became of it", () => {
    const { store } = make();
    for (const key of ["b", "a", "c"]) store.put(item(key, "u", "1"));
    store.remove(item("c", "u", "2"));
    expect([store.changes, store.takeChanged(), store.takeChanged()]).toEqual([3, ["b", "a", "c"], []]);
    expect([...store.objects.keys()]).toEqual(["b", "a"]);
  });

  it("knows what changed last, whatever it keeps of it", () => {
    const { store } = make();
    for (const [key, version] of [
      ["a", "9"],
      ["b", "100"],
      ["c", "20"],
      ["d", "8"],
    ] as const)
      store.put(item(key, "u", version, "same"));
    const keys = (count: number) => store.newest(count).map(({ key }) => key);
    expect(keys(3)).toEqual(["b", "c", "a"]);
    store.put(item("d", "u", "101", "same"));
    store.remove(item("b", "u", "102"));
    expect([keys(2), keys(9)]).toEqual([
      ["d", "c"],
      ["d", "c", "a"],
    ]);
  });

  it("keeps an object whose projection is as it was, and tells nobody", () => {
    const { store, projected } = make();
    store.put(item("a", "u", "1", { deep: [1] }));
    const first = store.objects.get("a");
    store.takeChanged();
    store.put(item("a", "u", "2", { deep: [1] }));
    expect(store.objects.get("a")).toBe(first);
    store.put(item("a", "u", "2", "not looked at"));
    expect([store.objects.get("a"), projected.length, store.takeChanged()]).toEqual([first, 2, []]);
  });

  it("takes another UID for another object, also where it looks the same", () => {
    const { store } = make();
    store.put(item("a", "u1", "1", "same"));
    const first = store.objects.get("a");
    store.takeChanged();
    store.put(item("a", "u2", "2", "same"));
    expect(store.objects.get("a")).not.toBe(first);
    expect([store.replaced, store.takeChanged()]).toEqual([1, ["a"]]);
    store.remove(item("a", "u1", "3"));
    expect(store.objects.size).toBe(1);
  });

  it("leaves out what the projection leaves out, and what it breaks at, and counts only that", () => {
    const { store } = make();
    for (const key of ["a", "b", "c"]) store.put(item(key, "u", "1"));
    store.takeChanged();
    store.put(item("a", "u", "2", "out"));
    store.put(item("b", "u", "2", "broken"));
    expect([[...store.objects.keys()], store.unread, store.takeChanged()]).toEqual([["c"], 1, ["a", "b"]]);
    store.put(item("a", "u", "3"));
    expect([store.takeChanged(), store.replaced]).toEqual([["a"], 0]);
  });
});

describe("a list that is gathered", () => {
  it("shows nothing until it is complete, and then only the difference", () => {
    const { store, projected } = make();
    for (const key of ["same", "new", "gone", "other"]) if (key !== "new") store.put(item(key, "u", "1"));
    const same = store.objects.get("same");
    store.takeChanged();
    const gathering = store.gather();
    gathering.put(item("same", "u", "1"));
    gathering.put(item("new", "u", "2"));
    gathering.put(item("other", "u2", "3", "other"));
    expect([[...store.objects.keys()], store.changes]).toEqual([["same", "gone", "other"], 0]);
    const looked = projected.length;
    gathering.commit();
    expect(store.takeChanged()).toEqual(["gone", "new", "other"]);
    expect([store.objects.get("same") === same, store.replaced, projected.length - looked]).toEqual([
      true,
      1,
      0,
    ]);
  });

  it("is forgotten when it is left", () => {
    const { store } = make();
    store.put(item("a", "u", "1"));
    store.gather().put(item("b", "u", "1"));
    store.gather().commit();
    expect([[...store.objects.keys()], store.takeChanged()]).toEqual([[], ["a"]]);
  });

  it("may lose objects before it is complete", () => {
    const { store } = make();
    const gathering = store.gather();
    for (const key of ["a", "b"]) gathering.put(item(key, "u", "1"));
    gathering.remove(item("a", "u", "2"));
    gathering.remove(item("b", "older", "2"));
    gathering.put(item("c", "u", "2"));
    gathering.put(item("c", "u", "3", "out"));
    gathering.commit();
    expect([...store.objects.keys()]).toEqual(["b"]);
  });
});

describe("any history", () => {
  const key = fc.constantFrom("a", "b", "c", "d");
  const value = fc.constantFrom("x", "y", "out");
  const step = fc.oneof(
    fc.record({ do: fc.constant("put" as const), key, value, again: fc.boolean() }),
    fc.record({ do: fc.constant("remove" as const), key }),
    // A list of what there is, after changes that no event told of.
    fc.record({ do: fc.constant("list" as const), drop: fc.array(key), add: fc.array(fc.tuple(key, value)) }),
  );

  it("ends in what there is, and each key that differs was told", () => {
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const { store } = make();
        const there = new Map<string, Item>();
        let before = new Map(store.objects);
        let next = 0;
        const put = (name: string, content: string, again: boolean) => {
          const uid = again ? (there.get(name)?.version.uid ?? `u${++next}`) : `u${++next}`;
          const made = item(name, uid, String(++next), content);
          there.set(name, made);
          return made;
        };
        for (const one of steps) {
          if (one.do === "put") store.put(put(one.key, one.value, one.again));
          else if (one.do === "remove") {
            const gone = there.get(one.key);
            there.delete(one.key);
            if (gone !== undefined) store.remove(gone);
          } else {
            for (const name of one.drop) there.delete(name);
            for (const [name, content] of one.add) put(name, content, true);
            const gathering = store.gather();
            for (const known of there.values()) gathering.put(known);
            gathering.commit();
          }
          const expected = [...there.values()].filter(({ raw }) => raw["value"] !== "out");
          expect(Object.fromEntries(store.objects)).toEqual(
            Object.fromEntries(expected.map((known) => [known.key, known.raw])),
          );
          const told = store.takeChanged();
          const names = new Set([...before.keys(), ...store.objects.keys()]);
          const differ = [...names].filter((name) => before.get(name) !== store.objects.get(name));
          expect(told).toEqual(expect.arrayContaining(differ));
          before = new Map(store.objects);
        }
      }),
    );
  });
});
