import { describe, expect, it } from "vitest";
import { looksEnglish } from "../../src/text/looks-english.js";

const repeat = (text: string): string[] => new Array<string>(20).fill(text);

describe("looksEnglish", () => {
  it("accepts English texts, also lower-case ones without punctuation", () => {
    expect(looksEnglish(repeat("The film is a quiet triumph, and it does not try to be more than that."))).toBe(true);
    expect(looksEnglish(repeat("one of the most engaging films that this director has made in years"))).toBe(true);
  });

  it.each([
    "Der Film ist ein stiller Triumph, und er will nicht mehr sein als das, was er zeigt.",
    "Le film est un triomphe discret, et il ne cherche pas à être autre chose que ce qu'il montre.",
    "La película es un triunfo tranquilo y no intenta ser nada más de lo que muestra en pantalla.",
    "这部电影是一个安静的胜利 它 没有 试图 成为 更多",
  ])("rejects %s", (text) => {
    expect(looksEnglish(repeat(text))).toBe(false);
  });

  it("does not judge a few words", () => {
    expect(looksEnglish(["Der Film ist gut"])).toBe(true);
  });
});
