-- What scripts share. layout.go puts it in their place, with numbers for constants
-- and with the functions that read and write the layouts which it defines.
local floor, ceil, sqrt, frexp, ldexp = math.floor, math.ceil, math.sqrt, math.frexp, math.ldexp
local format, byte, char, sub = string.format, string.byte, string.char, string.sub

-- split spells a whole number from 0 to 2^53. All of this is exact.
local function split(x)
  local g = x % 256
  x = (x - g) / 256
  local f = x % 256
  x = (x - f) / 256
  local e = x % 256
  x = (x - e) / 256
  local d = x % 256
  x = (x - d) / 256
  local c = x % 256
  x = (x - c) / 256
  local b = x % 256
  return (x - b) / 256, b, c, d, e, f, g
end

-- splitFraction spells any number: a mantissa of 53 bits, and an exponent.
local function splitFraction(x)
  local m, exponent = frexp(x)
  exponent = exponent - 53 + 16384
  if m < 0 then m, exponent = -m, exponent + 32768 end
  local a, b, c, d, e, f, g = split(m * 9007199254740992)
  return a, b, c, d, e, f, g, floor(exponent / 256), exponent % 256
end

-- fraction reads it.
local function fraction(m, a, b)
  local x = ldexp(m, a % 128 * 256 + b - 16384)
  return a < 128 and x or -x
end

-- (layouts)
-- flaw says why there is no state that can be used, or nothing. The version comes
-- first: all else may be different in another one.
local function flaw(sums, ends, about)
  if not (sums and ends and about) then return 'RATION no ledger: a hash without state' end
  local version = byte(about, 1)
  if version and version ~= VERSION then
    return format('RATION state of version %d, not %d', version, VERSION)
  end
  local calendar = (SLOTS + ERAS) * 2
  if #sums ~= SUMS or #about <= ABOUT or
    #ends ~= calendar and not tonumber(sub(ends, calendar + 1)) then
    return 'RATION bad state'
  end
end
