/** Colors of categories, with a contrast of at least 3 to the light and the dark background. */
export const palette = [
  "#3b82d0",
  "#d2691e",
  "#2a9464",
  "#b8549c",
  "#8b6fd6",
  "#a2852a",
  "#d14b4b",
  "#2f93a3",
] as const;

export function getColor(index: number): string {
  return palette[index % palette.length]!;
}

/** The methods that most figures show. The others share the rest of the palette. */
const methodOrder = ["standard", "ascc", "rift", "rose"];

/** A color per item. A method has the same color in every figure; its other labels get free ones. */
export function assignColors(items: readonly { readonly method: string; readonly label: string }[]): string[] {
  const byLabel = new Map<string, string>();
  const taken = new Set<string>();
  for (const { method, label } of items) {
    if (byLabel.has(label)) continue;
    const known = methodOrder.indexOf(method);
    const rest = palette.length - methodOrder.length;
    const sum = [...method].reduce((total, character) => total + character.codePointAt(0)!, 0);
    const own = known >= 0 ? known : methodOrder.length + (sum % rest);
    const free = palette.findIndex((_, i) => !taken.has(getColor(own + i)));
    const color = getColor(own + Math.max(0, free));
    taken.add(color);
    byLabel.set(label, color);
  }
  return items.map(({ label }) => byLabel.get(label)!);
}

export const themes = {
  light: { ink: "#1f2933", paper: "#ffffff" },
  dark: { ink: "#e5e9ef", paper: "#12171f" },
} as const;

const stops = [
  [52, 62, 140],
  [38, 110, 160],
  [36, 155, 142],
  [120, 195, 95],
  [246, 214, 80],
] as const;

/** A color for a fraction in [0, 1], from dark blue (0) to light yellow (1). */
export function getHeatColor(fraction: number): string {
  const position = Math.min(1, Math.max(0, fraction)) * (stops.length - 1);
  const below = Math.min(Math.floor(position), stops.length - 2);
  const [from, to] = [stops[below]!, stops[below + 1]!];
  const channels = from.map((value, i) => Math.round(value + (position - below) * (to[i]! - value)));
  return `#${channels.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
