/** The way in which a text is hidden. `several`: more than one of these. */
export const hiddenKinds = ["tags", "variation-selectors", "zero-width", "bidirectional", "several"] as const;
export type HiddenKind = (typeof hiddenKinds)[number];

/** Text that a person does not see, or not as it is, but a language model reads. */
export interface HiddenText {
  readonly kind: HiddenKind;
  /** The decoded text; empty if no known code gives text. */
  readonly text: string;
}

/** Unicode tags: each is an ASCII character that no font draws. */
const tag = /[\u{e0000}-\u{e007f}]/u;
/** The only flags of emoji that consist of tags: England, Scotland and Wales. */
const flag =
  /\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e0073}\u{e0063}\u{e0074}|\u{e0077}\u{e006c}\u{e0073})\u{e007f}/gu;
const selector = "[\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]";
/** One selector after a character that has variants. */
const usualSelector = new RegExp(
  `(?<=[\\p{Emoji}\\p{Emoji_Modifier}])[\\ufe0e\\ufe0f](?!${selector})|(?<=\\p{Ideographic})${selector}(?!${selector})|(?<=\\p{S})\\ufe00(?!${selector})`,
  "gu",
);
const anySelector = new RegExp(selector, "gu");
/** All characters that are not drawn. */
export const invisible = "[\\p{Default_Ignorable_Code_Point}\\p{Bidi_Control}]|(?!\\s)\\p{Cc}";
/** Those that are bits, if they are a code: characters without width, fillers, operators and controls. */
const bit = `(?!${selector}|[\\u{e0000}-\\u{e007f}])(?:${invisible})`;
const anyBit = new RegExp(bit, "gu");
/** Fewer bytes or characters that give no text are accidents. */
const minUndecoded = 8;
const bitRun = new RegExp(`(?:${bit}){${minUndecoded},}`, "gu");
/** Bits that are spread over a text are found only if they give text with so many different small letters. */
const minSpread = 4;
/** Text in an override is drawn in the other direction than it is read. */
const override = /[\u202d\u202e]([^\u202a-\u202e\u2029\n]+)/gu;

/** Every character that can hide text. A text without any is not searched. */
const suspicious = new RegExp(invisible, "u");
const anyInvisible = new RegExp(invisible, "gu");

/** Text and nothing else: no control characters and no unassigned ones. */
const printable = /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\t\n\r]+$/u;

function decodeTags(text: string): string | null {
  const tags = Array.from(text.replaceAll(flag, ""), (each) => each.codePointAt(0)! - 0xe0000).filter(
    (code) => code >= 0 && code <= 0x7f,
  );
  const found = tags.filter((code) => code >= 0x20 && code < 0x7f).map((code) => String.fromCharCode(code));
  return found.length > 0 ? found.join("") : null;
}

/** Selectors number 1 to 256 are the bytes 0 to 255. */
function decodeSelectors(text: string): string | null {
  const bytes = Array.from(text.replaceAll(usualSelector, "").match(anySelector) ?? [], (each) => {
    const code = each.codePointAt(0)!;
    return code < 0xe0100 ? code - 0xfe00 : code - 0xe0100 + 16;
  });
  // One selector behind an unusual character is no text.
  return bytes.length < 2 ? null : (decodeBytes(bytes) ?? (bytes.length < minUndecoded ? null : ""));
}

function decodeBytes(bytes: readonly number[]): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return printable.test(text) ? text : null;
  } catch {
    return null;
  }
}

/** The two most frequent characters of a run are bits, the others separate characters. */
function decodeZeroWidth(run: string): string {
  const counts = new Map<string, number>();
  for (const each of run) counts.set(each, (counts.get(each) ?? 0) + 1);
  const [first, second] = [...counts.keys()].sort((a, b) => counts.get(b)! - counts.get(a)! || (a < b ? -1 : 1));
  if (first === undefined || second === undefined) return "";
  const [low, high] = first < second ? [first, second] : [second, first];
  for (const [zero, one] of [
    [low, high],
    [high, low],
  ]) {
    const bits = Array.from(run, (each) => (each === zero ? "0" : each === one ? "1" : " ")).join("");
    const groups = bits.trim().split(/ +/);
    const decoded =
      groups.length > 1
        ? decodeBytes(groups.map((group) => Number.parseInt(group, 2) & 0xff))
        : (decodeBits(bits, 8) ?? decodeBits(bits, 7));
    if (decoded !== null) return decoded;
  }
  return "";
}

function decodeBits(bits: string, width: number): string | null {
  if (bits.length % width !== 0) return null;
  const bytes = Array.from({ length: bits.length / width }, (_, i) =>
    Number.parseInt(bits.slice(i * width, (i + 1) * width), 2),
  );
  return decodeBytes(bytes);
}

function decodeBitText(text: string): string | null {
  const runs = text.match(bitRun);
  if (runs) return runs.map(decodeZeroWidth).filter(Boolean).join(" ");
  const spread = text.match(anyBit) ?? [];
  const [first, second, third] = new Set(spread);
  if (second === undefined || third !== undefined) return null;
  // Characters that alternate by accident give few different letters, and hardly any small ones.
  return (
    [first, second]
      .map((one) => decodeBits(spread.map((each) => Number(each === one)).join(""), 8))
      .find((decoded) => new Set(decoded?.match(/[\p{Ll}\p{Lo}]/gu)).size >= minSpread) ?? null
  );
}

/** Finds text of each kind that its characters encode. It is not part of the visible text. */
function decodeAll(text: string): { readonly kind: HiddenKind; readonly text: string }[] {
  const found: [HiddenKind, string | null][] = [
    ["tags", tag.test(text) ? decodeTags(text) : null],
    ["variation-selectors", decodeSelectors(text)],
    ["zero-width", decodeBitText(text)],
  ];
  return found.flatMap(([kind, decoded]) => (decoded === null ? [] : [{ kind, text: decoded }]));
}

/** Decodes text that a language model reads, but of which nothing is visible; empty if there is none. */
export function decodeInvisible(text: string): string {
  if (!suspicious.test(text)) return "";
  return decodeAll(text)
    .map((each) => each.text)
    .filter(Boolean)
    .join(" ");
}

/**
 * Finds hidden text in a text or a pair: Unicode tags, variation selectors as bytes, characters without width as bits,
 * and text whose direction is overridden, so that another text is visible. Null if there is none.
 */
export function findHiddenText(texts: readonly string[]): HiddenText | null {
  const text = texts.join("\n");
  if (!suspicious.test(text)) return null;
  const overridden = Array.from(text.matchAll(override), ([, inside]) => inside!.replaceAll(anyInvisible, "").trim());
  const read = overridden.filter(Boolean).join(" ");
  const found = [...decodeAll(text), ...(read === "" ? [] : [{ kind: "bidirectional" as const, text: read }])];
  const [first, ...others] = found;
  if (first === undefined) return null;
  if (others.length === 0) return first;
  return {
    kind: "several",
    text: found
      .map((each) => each.text)
      .filter(Boolean)
      .join(" "),
  };
}

/** Describes hidden text for messages. */
export function describeHiddenText({ kind, text }: HiddenText): string {
  return `hidden text (${kind}: ${JSON.stringify(text.slice(0, 80))})`;
}
