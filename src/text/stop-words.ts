/** English words that carry grammar rather than meaning: pronouns, determiners, prepositions, conjunctions, auxiliaries, particles. */
const stopWordList = `
  a an the this that these those each every either neither some any no none all both half few fewer many much more most less least several such own same other another
  i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself they them their theirs themselves
  who whom whose which what whatever whoever whichever one ones someone somebody something anyone anybody anything everyone everybody everything nobody nothing
  and or but nor so yet if unless because since although though while whereas whether than as like until till once lest
  at by for from in into of off on onto out over to toward towards under up upon with within without about above across after against along amid among around
  before behind below beneath beside besides between beyond despite down during except inside near outside past per through throughout via
  am is are was were be been being have has had having do does did doing done can could may might must shall should will would ought cannot
  not n't 's 'm 're 've 'd 'll s t d m ll re ve ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn
  here there where when why how then now too very just only also even again ever never still already almost
`;

export const stopWords: ReadonlySet<string> = new Set(stopWordList.trim().split(/\s+/));

/** Whether a word, in any case, is a stop word. */
export function isStopWord(word: string): boolean {
  return stopWords.has(word.toLowerCase().replaceAll("’", "'"));
}
