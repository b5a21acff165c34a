/** Counts the edits (insert, delete, replace, swap of neighbors) between two words. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(replaced, previous[j]! + 1, row[j - 1]! + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        row[j] = Math.min(row[j]!, beforePrevious[j - 2]! + 1);
    }
    beforePrevious = previous;
    previous = row;
  }
  return previous[b.length]!;
}

/** Returns the candidate that is closest to a mistyped name, if one is close enough. */
export function findNearMatch(name: string, candidates: Iterable<string>): string | undefined {
  const lowerCase = name.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(lowerCase.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(lowerCase, candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  // A name of several words may be known by one of them: "review" of "Review Text".
  const containing = [...candidates].filter((each) =>
    each
      .toLowerCase()
      .split(/[^a-z\d]+/)
      .includes(lowerCase),
  );
  return best ?? (containing.length === 1 ? containing[0] : undefined);
}

/** Returns ` (did you mean "x"?)` or an empty string, to follow a name in an error message. */
export function didYouMean(name: string, candidates: Iterable<string>): string {
  const match = findNearMatch(name, candidates);
  return match === undefined ? "" : ` (did you mean "${match}"?)`;
}
