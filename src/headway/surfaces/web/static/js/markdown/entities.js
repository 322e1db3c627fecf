// The character references of HTML that people and models write. The vendored parser imports this instead of all names,
// which are as large as the parser. Others stay as they were written; numbers such as &#8364; are the parser's own.
const SYNTAX = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const BLANKS = { nbsp: "\u00a0", ensp: "\u2002", emsp: "\u2003", thinsp: "\u2009", shy: "\u00ad", zwnj: "\u200c", zwj: "\u200d" };
const CHARACTERS = new Map(Object.entries({ ...SYNTAX, ...BLANKS }));
const LETTERS_AND_SIGNS = `
  copy ©, reg ®, trade ™, hellip …, mdash —, ndash –, lsquo ‘, rsquo ’, ldquo “, rdquo ”, sbquo ‚, bdquo „, laquo «, raquo »,
  lsaquo ‹, rsaquo ›, bull •, middot ·, sect §, para ¶, dagger †, Dagger ‡, permil ‰, prime ′, Prime ″, ordm º, ordf ª, iexcl ¡,
  iquest ¿, euro €, pound £, yen ¥, cent ¢, curren ¤, times ×, divide ÷, plusmn ±, minus −, deg °, micro µ, frac12 ½, frac14 ¼,
  frac34 ¾, sup1 ¹, sup2 ², sup3 ³, larr ←, uarr ↑, rarr →, darr ↓, harr ↔, lArr ⇐, uArr ⇑, rArr ⇒, dArr ⇓, hArr ⇔, le ≤, ge ≥,
  ne ≠, asymp ≈, equiv ≡, infin ∞, sum ∑, prod ∏, radic √, int ∫, part ∂, nabla ∇, isin ∈, notin ∉, ni ∋, cap ∩, cup ∪, sub ⊂,
  sup ⊃, sube ⊆, supe ⊇, empty ∅, and ∧, or ∨, not ¬, forall ∀, exist ∃, there4 ∴, prop ∝, perp ⊥, sim ∼, cong ≅, oplus ⊕,
  otimes ⊗, lceil ⌈, rceil ⌉, lfloor ⌊, rfloor ⌋, ang ∠, lang ⟨, rang ⟩, loz ◊, spades ♠, clubs ♣, hearts ♥, diams ♦, check ✓,
  cross ✗, star ☆, starf ★, brvbar ¦, macr ¯, acute ´, cedil ¸, uml ¨, circ ˆ, tilde ˜, fnof ƒ, szlig ß, aring å, Aring Å, aelig æ,
  AElig Æ, oelig œ, OElig Œ, oslash ø, Oslash Ø, ccedil ç, Ccedil Ç, ntilde ñ, Ntilde Ñ, eth ð, ETH Ð, thorn þ, THORN Þ, scaron š,
  Scaron Š, agrave à, aacute á, acirc â, atilde ã, auml ä, egrave è, eacute é, ecirc ê, euml ë, igrave ì, iacute í, icirc î, iuml ï,
  ograve ò, oacute ó, ocirc ô, otilde õ, ouml ö, ugrave ù, uacute ú, ucirc û, uuml ü, yacute ý, yuml ÿ, Agrave À, Aacute Á, Acirc Â,
  Atilde Ã, Auml Ä, Egrave È, Eacute É, Ecirc Ê, Euml Ë, Igrave Ì, Iacute Í, Icirc Î, Iuml Ï, Ograve Ò, Oacute Ó, Ocirc Ô, Otilde Õ,
  Ouml Ö, Ugrave Ù, Uacute Ú, Ucirc Û, Uuml Ü, Yacute Ý, alpha α, beta β, gamma γ, delta δ, epsilon ε, zeta ζ, eta η, theta θ,
  iota ι, kappa κ, lambda λ, mu μ, nu ν, xi ξ, omicron ο, pi π, rho ρ, sigmaf ς, sigma σ, tau τ, upsilon υ, phi φ, chi χ, psi ψ,
  omega ω, Alpha Α, Beta Β, Gamma Γ, Delta Δ, Epsilon Ε, Zeta Ζ, Eta Η, Theta Θ, Iota Ι, Kappa Κ, Lambda Λ, Mu Μ, Nu Ν, Xi Ξ,
  Omicron Ο, Pi Π, Rho Ρ, Sigma Σ, Tau Τ, Upsilon Υ, Phi Φ, Chi Χ, Psi Ψ, Omega Ω`;
for (const pair of LETTERS_AND_SIGNS.split(",")) {
  const [name, character] = pair.trim().split(" ");
  CHARACTERS.set(name, character);
}

/** The character that a reference such as &amp; stands for, or the reference itself. */
export const decodeHTMLStrict = (reference) => CHARACTERS.get(reference.slice(1, -1)) ?? reference;
