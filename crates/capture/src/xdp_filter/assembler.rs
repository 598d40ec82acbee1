//! eBPF instructions and an assembler for them (RFC 9669): forward jumps to labels, 32-bit arithmetic, loads. Limited
//! to the needs of a packet filter; ensures that every jump reaches its label. The program itself is checked by the
//! kernel's verifier.

/// One instruction in the kernel's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct EbpfInstruction {
    /// Operation.
    pub code: u8,
    /// Destination in the lower half, source in the upper.
    pub registers: u8,
    /// Offset of a jump or a memory access.
    pub offset: i16,
    /// Constant.
    pub immediate: i32,
}

/// A register. Calls take arguments in 1 to 5 and return in 0; 6 to 9 survive a call; 10 is the frame pointer.
pub(crate) type EbpfRegister = u8;
/// End of the stack, which grows down.
pub(crate) const FRAME: EbpfRegister = 10;

/// Width of a load or store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessWidth {
    /// 1 byte.
    U8 = 0x10,
    /// 2 bytes.
    U16 = 0x08,
    /// 4 bytes.
    U32 = 0x00,
}

/// 32-bit arithmetic with a constant; clears the upper half of the register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AluOperation {
    /// Addition.
    Add = 0x04,
    /// Bitwise AND.
    And = 0x54,
    /// Left shift.
    ShiftLeft = 0x64,
    /// Right shift.
    ShiftRight = 0x74,
    /// Bitwise XOR.
    Xor = 0xa4,
    /// Assignment.
    Mov = 0xb4,
}

/// Comparisons of a register's lower half with a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JumpTest {
    /// Equal.
    Eq = 0x16,
    /// Unsigned less.
    Less = 0xa6,
    /// Not equal.
    NotEq = 0x56,
}

pub(crate) mod code {
    //! Operation codes.
    /// Load from memory; combined with a [`super::AccessWidth`].
    pub const LOAD: u8 = 0x61;
    /// Store a register; combined with a [`super::AccessWidth`].
    pub const STORE: u8 = 0x63;
    /// Store a 32-bit constant.
    pub const STORE_IMMEDIATE: u8 = 0x62;
    /// A 64-bit constant in two instructions.
    pub const LOAD_IMMEDIATE_64: u8 = 0x18;
    /// Copy all 64 bits.
    pub const MOV_64: u8 = 0xbf;
    /// Copy 32 bits.
    pub const MOV_32: u8 = 0xbc;
    /// Add 64 bits.
    pub const ADD_64: u8 = 0x0f;
    /// Add a constant to 64 bits.
    pub const ADD_IMMEDIATE_64: u8 = 0x07;
    /// Jump.
    pub const JUMP: u8 = 0x05;
    /// Jump if greater than another register, 64-bit unsigned.
    pub const JUMP_MORE: u8 = 0x2d;
    /// Call a kernel helper.
    pub const CALL: u8 = 0x85;
    /// Return register 0.
    pub const EXIT: u8 = 0x95;
}

/// Source register of [`code::LOAD_IMMEDIATE_64`] if the constant is a map descriptor.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;

/// A position in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JumpLabel(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    insns: Vec<EbpfInstruction>,
    /// Position of each label.
    labels: Vec<Option<usize>>,
    /// Jumps with their targets.
    jumps: Vec<(usize, JumpLabel)>,
}

impl Assembler {
    pub(crate) fn label(&mut self) -> JumpLabel {
        self.labels.push(None);
        JumpLabel(self.labels.len() - 1)
    }

    /// Places `label` before the next instruction.
    pub(crate) fn place(&mut self, label: JumpLabel) {
        self.labels[label.0] = Some(self.insns.len());
    }

    pub(crate) fn load(
        &mut self,
        size: AccessWidth,
        to: EbpfRegister,
        from: EbpfRegister,
        offset: i16,
    ) {
        self.push(code::LOAD | size as u8, to, from, offset, 0);
    }

    pub(crate) fn store(
        &mut self,
        size: AccessWidth,
        to: EbpfRegister,
        offset: i16,
        from: EbpfRegister,
    ) {
        self.push(code::STORE | size as u8, to, from, offset, 0);
    }

    /// Stores 4 bytes.
    pub(crate) fn store_immediate(&mut self, to: EbpfRegister, offset: i16, value: u32) {
        self.push(code::STORE_IMMEDIATE, to, 0, offset, value as i32);
    }

    pub(crate) fn alu(&mut self, op: AluOperation, reg: EbpfRegister, value: u32) {
        self.push(op as u8, reg, 0, 0, value as i32);
    }

    pub(crate) fn mov64(&mut self, to: EbpfRegister, from: EbpfRegister) {
        self.push(code::MOV_64, to, from, 0, 0);
    }

    pub(crate) fn mov32(&mut self, to: EbpfRegister, from: EbpfRegister) {
        self.push(code::MOV_32, to, from, 0, 0);
    }

    pub(crate) fn add64(&mut self, to: EbpfRegister, from: EbpfRegister) {
        self.push(code::ADD_64, to, from, 0, 0);
    }

    pub(crate) fn add64_immediate(&mut self, to: EbpfRegister, value: i32) {
        self.push(code::ADD_IMMEDIATE_64, to, 0, 0, value);
    }

    /// Loads the map with file descriptor `map` into `reg`.
    pub(crate) fn load_map(&mut self, reg: EbpfRegister, map: i32) {
        self.push(code::LOAD_IMMEDIATE_64, reg, PSEUDO_MAP_FD, 0, map);
        self.push(0, 0, 0, 0, 0);
    }

    pub(crate) fn jump(&mut self, to: JumpLabel) {
        self.push_jump(code::JUMP, 0, 0, 0, to);
    }

    pub(crate) fn jump_if(&mut self, test: JumpTest, reg: EbpfRegister, value: u32, to: JumpLabel) {
        self.push_jump(test as u8, reg, 0, value as i32, to);
    }

    /// Jumps if `left` > `right`, 64-bit unsigned.
    pub(crate) fn jump_if_more(&mut self, left: EbpfRegister, right: EbpfRegister, to: JumpLabel) {
        self.push_jump(code::JUMP_MORE, left, right, 0, to);
    }

    pub(crate) fn call(&mut self, helper: i32) {
        self.push(code::CALL, 0, 0, 0, helper);
    }

    pub(crate) fn exit(&mut self) {
        self.push(code::EXIT, 0, 0, 0, 0);
    }

    /// The program; `None` if a jump exceeds 16 bits.
    pub(crate) fn finish(mut self) -> Option<Vec<EbpfInstruction>> {
        for (at, JumpLabel(label)) in self.jumps {
            let to = self.labels[label].expect("every label that is jumped to was placed");
            self.insns[at].offset = i16::try_from(to as i64 - at as i64 - 1).ok()?;
        }
        Some(self.insns)
    }

    fn push(
        &mut self,
        code: u8,
        dst: EbpfRegister,
        src: EbpfRegister,
        offset: i16,
        immediate: i32,
    ) {
        self.insns.push(EbpfInstruction {
            code,
            registers: src << 4 | dst,
            offset,
            immediate,
        });
    }

    fn push_jump(
        &mut self,
        code: u8,
        dst: EbpfRegister,
        src: EbpfRegister,
        immediate: i32,
        to: JumpLabel,
    ) {
        self.jumps.push((self.insns.len(), to));
        self.push(code, dst, src, 0, immediate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_land_on_their_labels() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.jump_if(JumpTest::Eq, 3, 7, end);
        asm.alu(AluOperation::Mov, 0, 1);
        asm.place(end);
        asm.exit();
        let insns = asm.finish().expect("short");
        assert_eq!(
            insns[0],
            EbpfInstruction {
                code: 0x16,
                registers: 3,
                offset: 1,
                immediate: 7
            }
        );
        assert_eq!(insns[2].code, code::EXIT);
    }

    #[test]
    fn jumps_that_are_too_far_are_refused() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.jump(end);
        (0..=i16::MAX).for_each(|_| asm.alu(AluOperation::Mov, 0, 1));
        asm.place(end);
        asm.exit();
        assert_eq!(asm.finish(), None);
    }
}
