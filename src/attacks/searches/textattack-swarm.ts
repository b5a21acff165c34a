import type { Rng } from "../../tensor/random.js";
import type { EditedText } from "../edited-text.js";
import { type EditProblem, type EditSearch, expand, type ScoredText, type SearchGenerator, score } from "../recipe.js";
import { drawLevy, drawStable } from "./levy.js";
import { computeMean, type ParticleSwarmOptions, softmax } from "./particle-swarm.js";
import { copyWords, drawIndex, selectBest } from "./population.js";

const maxVelocity = 3;
const maxTurns = 21;

/** The best candidate of each word, and the text itself for words without a candidate. */
interface Neighborhood {
  readonly best: readonly ScoredText[];
  /** Probabilities in proportion to the gain; uniform if no candidate has one. */
  readonly weights: readonly number[];
}

/**
 * Particle swarm optimization as in TextAttack 0.3.11, in its order of steps. It differs from the
 * papers: a turn starts from the elite and copies words of the particle, all particles are scored
 * in every move, elites change only after the mutation, and a mutation can have no effect.
 */
export function textAttackSwarmSearch(options: ParticleSwarmOptions): EditSearch {
  const { population, iterations, isLeap = false } = options;
  return {
    name: `TextAttack's ${isLeap ? "LEAP" : "particle swarm"}, ${population} particles and ${iterations} moves`,
    cost: "the candidates of all words, then population x (1 + candidates of all words) per move",
    *run(problem, rng) {
      if (problem.original.text.length === 0) return problem.original.text;
      const start = yield* findNeighborhood(problem, problem.original);
      let particles = Array.from({ length: population }, () => start.best[drawIndex(start.weights, rng)]!);
      const velocities = particles.map(() => {
        const velocity = drawVelocity(isLeap, rng);
        return problem.original.text.words.map(() => velocity);
      });
      let globalElite = selectBest(particles);
      if (globalElite.isReached) return globalElite.text;
      const elites = [...particles];
      const [mean, lowest] = [computeMean(particles), Math.min(...particles.map(({ value }) => value))];
      for (let iteration = 0; iteration < iterations; iteration++) {
        const progress = iteration / iterations;
        const moved = particles.map((particle, k) => {
          const inertia = isLeap ? drawInertia(particle.value, mean, lowest, rng) : 0.6 * (1 - progress) + 0.2;
          updateVelocities(velocities[k]!, inertia, particle.text, elites[k]!.text, globalElite.text);
          const turns = isLeap ? softmax(velocities[k]!) : velocities[k]!.map((value) => 1 / (1 + Math.exp(-value)));
          let { text } = particle;
          if (rng.next() < 0.8 - 0.6 * progress) text = turn(problem, elites[k]!.text, text, turns, rng);
          if (rng.next() < 0.2 + 0.6 * progress) text = turn(problem, globalElite.text, text, turns, rng);
          return text;
        });
        particles = [...(yield* score(moved.map((text) => ({ text }))))];
        const best = selectBest(particles);
        if (best.isReached) return best.text;
        for (const [k, particle] of particles.entries()) {
          const reference = isLeap ? elites[k]!.text : problem.original.text;
          const { text } = particle;
          const different = text.words.filter((word, i) => word !== reference.getWord(i)).length;
          if (rng.next() >= 1 - (2 * different) / Math.max(1, text.length)) continue;
          const { best: neighbors, weights } = yield* findNeighborhood(problem, particle);
          const index = isLeap ? selectLast(weights) : drawIndex(weights, rng);
          particles[k] = neighbors[index]!;
        }
        const top = selectBest(particles);
        if (top.isReached) return top.text;
        for (const [k, particle] of particles.entries()) if (particle.value > elites[k]!.value) elites[k] = particle;
        if (top.value > globalElite.value) globalElite = top;
      }
      return globalElite.text;
    },
  };
}

function* findNeighborhood(problem: EditProblem, current: ScoredText): SearchGenerator<Neighborhood> {
  const { text } = current;
  const candidates = yield* expand(text, problem.findOpenPositions(text));
  const scored = yield* score(candidates.map((candidate) => ({ text: candidate })));
  const best = new Array<ScoredText>(text.length).fill(current);
  const gains = new Array<number>(text.length).fill(0);
  for (const [i, result] of scored.entries()) {
    const { position } = candidates[i]!;
    if (best[position] !== current && result.value <= best[position]!.value) continue;
    best[position] = result;
    gains[position] = Math.max(0, result.value - current.value);
  }
  return { best, weights: gains.some((gain) => gain > 0) ? gains : gains.map(() => 1) };
}

function drawVelocity(isLeap: boolean, rng: Rng): number {
  const uniform = (2 * rng.next() - 1) * maxVelocity;
  if (!isLeap) return uniform;
  return (2 * rng.next() - 1) * maxVelocity < drawStable(rng) ? uniform : drawLevy(-maxVelocity, maxVelocity, rng);
}

function drawInertia(value: number, mean: number, lowest: number, rng: Rng): number {
  return value < mean && mean > lowest ? 0.2 + (0.6 * (value - lowest)) / (mean - lowest) : drawLevy(0.5, 0.8, rng);
}

function updateVelocities(
  velocities: number[],
  inertia: number,
  text: EditedText,
  elite: EditedText,
  globalElite: EditedText,
): void {
  const [words, own, best] = [text.words, elite.words, globalElite.words];
  const pull = (first: string, second: string): number => (first === second ? -maxVelocity : maxVelocity);
  for (const [i, velocity] of velocities.entries())
    velocities[i] = inertia * velocity + (1 - inertia) * (pull(words[i]!, own[i]!) + pull(words[i]!, best[i]!));
}

/** Copies words of the particle into the elite, if the constraints allow the result. */
function turn(
  problem: EditProblem,
  elite: EditedText,
  text: EditedText,
  probabilities: readonly number[],
  rng: Rng,
): EditedText {
  for (let attempt = 0; attempt < maxTurns; attempt++) {
    const chosen = probabilities.flatMap((probability, i) => (rng.next() < probability ? [i] : []));
    const turned = copyWords(elite, text, chosen);
    if (turned === elite || problem.isAllowed(turned)) return turned;
  }
  return elite;
}

/** The last of the largest weights, as the end of an ascending sort. */
function selectLast(weights: readonly number[]): number {
  return weights.reduce((best, weight, i) => (weight >= weights[best]! ? i : best), 0);
}
