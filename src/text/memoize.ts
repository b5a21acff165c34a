const MAX_ENTRIES = 50_000;
const MAX_KEY_LENGTH = 64;

/** The same function with a bounded memory of its results for short strings. */
export function memoize<Value extends object | number>(compute: (text: string) => Value): (text: string) => Value {
  const known = new Map<string, Value>();
  return (text) => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const value = compute(text);
    if (text.length <= MAX_KEY_LENGTH) {
      if (known.size >= MAX_ENTRIES) known.clear();
      // A copy of the key: a slice would keep the whole text alive that it was cut from.
      known.set(Buffer.from(text, "utf16le").toString("utf16le"), value);
    }
    return value;
  };
}
