const MAX_ENTRIES = 50_000;
const MAX_KEY_LENGTH = 64;

/** Caches the results of a function for short strings. The cache is cleared when it is full. */
export function memoize<Value extends object | number>(compute: (text: string) => Value): (text: string) => Value {
  const cache = new Map<string, Value>();
  return (text) => {
    const found = cache.get(text);
    if (found !== undefined) return found;
    const value = compute(text);
    if (text.length <= MAX_KEY_LENGTH) {
      if (cache.size >= MAX_ENTRIES) cache.clear();
      // Copy the key, because a slice would keep the complete text in memory.
      cache.set(Buffer.from(text, "utf16le").toString("utf16le"), value);
    }
    return value;
  };
}
