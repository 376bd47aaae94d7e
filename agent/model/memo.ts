// Remembering by identity: a derived value is made again only when one of its inputs is another object. Pure to the outside.

/** Remembers the last result; made again when any argument is not the identical one. */
export function lastOf<A extends readonly unknown[], R>(make: (...args: A) => R): (...args: A) => R {
  let last: { readonly args: A; readonly result: R } | undefined;
  return (...args) => {
    if (last?.args.every((value, index) => Object.is(value, args[index]))) return last.result;
    last = { args, result: make(...args) };
    return last.result;
  };
}

/** The result of the last call when that of this one is equal: what is made from it is then not made again. */
export function keepEqual<A extends readonly unknown[], R>(
  make: (...args: A) => R,
  equal: (before: R, now: R) => boolean,
): (...args: A) => R {
  let last: { readonly result: R } | undefined;
  return (...args) => {
    const result = make(...args);
    if (last === undefined || !equal(last.result, result)) last = { result };
    return last.result;
  };
}

/** Remembers one result per object for as long as the object lives. */
export function perObject<K extends object, R>(make: (key: K) => R): (key: K) => R {
  const results = new WeakMap<K, R>();
  return (key) => {
    const known = results.get(key);
    if (known !== undefined) return known;
    const made = make(key);
    results.set(key, made);
    return made;
  };
}
