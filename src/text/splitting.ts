import type { PreTokenizer } from "./tokenizer-components.js";
import type { TokenizerFile } from "./tokenizer-file.js";

/** Normalizers that change only single characters and their combining marks. */
const localNormalizers = new Set(["BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]);

/** Patterns of `Replace` that cannot match across a single space between two visible characters. */
const localPatterns = new Set([" {2,}", "\\s{2,}|[\\n\\r\\t]", "``", "''"]);

/**
 * Checks whether the tokens of a text are those of its parts, if it is split at single spaces. If a
 * component is not known to allow it, texts are tokenized as a whole.
 */
export function canSplitAtSpaces({ addedTokens, normalizers, preTokenizers }: TokenizerFile): boolean {
  // Added tokens that contain or consume white space must be searched in the complete text. A run
  // of spaces cannot match a single one.
  if (addedTokens.some(({ content, rstrip }) => rstrip || (/\s/.test(content) && !/^ {2,}$/.test(content))))
    return false;
  const types = preTokenizers.map(({ type }) => type);
  const dropsSpaces = types.some((type) => type === "BertPreTokenizer" || type.startsWith("Whitespace"));
  const marksSpaces = preTokenizers.some((item) => item.type === "Metaspace" && prependsAlways(item));
  const isMarked = dropsSpaces || marksSpaces;
  const isKnown = preTokenizers.every((item) => {
    if (item.type === "ByteLevel") return item.use_regex && types.length === 1;
    if (item.type === "Metaspace") return prependsAlways(item);
    return item.type === "BertPreTokenizer" || item.type.startsWith("Whitespace");
  });
  const areLocal = normalizers.every((item) => {
    // These can change white space. That has no effect if every word is marked in the same way.
    if (item.type === "Strip" || item.type === "Precompiled") return isMarked;
    if (item.type !== "Replace") return localNormalizers.has(item.type);
    return isMarked && localPatterns.has("String" in item.pattern ? item.pattern.String : item.pattern.Regex);
  });
  return types.length > 0 && isKnown && areLocal;
}

function prependsAlways(item: Extract<PreTokenizer, { type: "Metaspace" }>): boolean {
  const scheme = item.prepend_scheme ?? (item.add_prefix_space === false ? "never" : "always");
  return scheme === "always" && item.split !== false;
}
