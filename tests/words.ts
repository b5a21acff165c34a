/** Splits a command line into words. Values stay whole, whatever they contain. */
export function words(texts: TemplateStringsArray, ...values: readonly string[]): string[] {
  return texts.flatMap((text, i) => [...(text.match(/\S+/g) ?? []), ...values.slice(i, i + 1)]);
}
