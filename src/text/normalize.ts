/** Consecutive marks after which a text is cut into pieces. No script uses nearly as many. */
const marksPerPiece = 64;
const markRun = new RegExp(`(\\p{M}{${marksPerPiece}})`, "u");

/**
 * Normalizes a text in linear time. Sorting the marks of one letter takes quadratic time in the
 * Unicode library, so longer runs of marks are normalized in pieces.
 */
export function normalizeUnicode(text: string, form: "NFD" | "NFKC"): string {
  if (!markRun.test(text)) return text.normalize(form);
  return text
    .split(markRun)
    .map((piece) => piece.normalize(form))
    .join("");
}
