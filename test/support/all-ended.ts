// Like Promise.all, but nothing is still under way when it rejects: what takes a half-made thing away finds all of it.

/** Rejects with the first of the reasons, in the order given. */
export async function allEnded<const T extends readonly Promise<unknown>[]>(
  promises: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const rejected = (await Promise.allSettled(promises)).find(({ status }) => status === "rejected");
  if (rejected?.status === "rejected") throw rejected.reason;
  return await Promise.all(promises);
}
