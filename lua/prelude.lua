-- What scripts share. assemble_test.go puts it in their place, with numbers for constants, and
-- adds the functions that scale and write the layouts of layout.go.
local floor, ceil = math.floor, math.ceil
local format, byte, char, sub = string.format, string.byte, string.char, string.sub

-- read and write are unpack and pack of the library struct. A server without it, and one of
-- 32 bits, does the same by hand, as far as the layouts need it (TestCodecs).
local struct, read, write = rawget(_G, 'struct'), nil, nil
if struct and struct.unpack('>I7', '\1\0\0\0\0\0\0') == 281474976710656 then
  read, write = struct.unpack, struct.pack
else
  local frexp, ldexp = math.frexp, math.ldexp

  local function writeWhole(x, size)
    local bytes = {}
    for i = size, 1, -1 do
      bytes[i] = x % 256
      x = (x - bytes[i]) / 256
    end
    return char(unpack(bytes))
  end

  -- fraction has the sign, the exponent and the first four bits in high.
  local function fraction(high, low)
    local m, exponent = high % 16 * 281474976710656 + low, floor(high % 32768 / 16)
    if exponent > 0 then m, exponent = m + 4503599627370496, exponent - 1 end
    local x = ldexp(m, exponent - 1074)
    return high < 32768 and x or -x
  end

  local function writeFraction(x)
    local sign = (x < 0 or 1 / x < 0) and 32768 or 0
    local m, exponent = frexp(x < 0 and -x or x)
    exponent = exponent + 1022
    if m == 0 or exponent < 1 then -- too small for a first bit that is not written
      m, exponent = ldexp(m, exponent + 52), 0
    else
      m = ldexp(m, 53) - 4503599627370496
    end
    local low = m % 281474976710656
    return writeWhole(sign + exponent * 16 + (m - low) / 281474976710656, 2) .. writeWhole(low, 6)
  end

  function read(layout, text)
    local list, at = {}, 1
    for kind, size in string.gmatch(layout, '(%a)(%d*)') do
      local x, n, high = 0, tonumber(size) or 1, nil
      if kind == 'd' then
        high, at, n = byte(text, at) * 256 + byte(text, at + 1), at + 2, 6
      end
      for i = at, at + n - 1 do
        x = x * 256 + byte(text, i)
      end
      list[#list + 1], at = high and fraction(high, x) or x, at + n
    end
    list[#list + 1] = at
    return unpack(list)
  end

  function write(layout, ...)
    local list, texts = {...}, {}
    for kind, size in string.gmatch(layout, '(%a)(%d*)') do
      local x = list[#texts + 1]
      texts[#texts + 1] = kind == 'd' and writeFraction(x) or writeWhole(x, tonumber(size) or 1)
    end
    return table.concat(texts)
  end
end

-- The ledger, the answer, the lease that the holder comes back with, and its request.
local l, a, own, q = {}, {}, {}, {}

-- (codecs)
-- flaw sets l.wrong if there is no state that can be used. The version comes first: all
-- else may be different in another one.
local function flaw(l, sums, ends, about)
  local version, calendar = about and byte(about, 1), (TICKS + ERAS) * 2
  if not (sums and ends and about) then
    l.wrong = 'RATION no ledger: a hash without state'
  elseif version and version ~= VERSION then
    l.wrong = format('RATION state of version %d, not %d', version, VERSION)
  elseif #sums ~= SUMS or #about <= ABOUT or
    #ends ~= calendar and #ends ~= calendar + ROOMS and
      not tonumber(sub(ends, calendar + ROOMS + 1)) then
    l.wrong = 'RATION bad state'
  end
end

